#include "src/cli/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/utf8.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::cli {
namespace {

constexpr size_t kLongestLine = 64 << 20;

// A list takes some 30 times the memory of its text while it is read, and nlohmann's destructor
// allocates, so that it ends the program where there is none: better not to begin.
bool MemoryFor(size_t text_bytes) {
  constexpr size_t kSmall = 1 << 20, kTimes = 32;
  if (text_bytes < kSmall) return true;
  void* volatile block = std::malloc(text_bytes * kTimes);
  std::free(block);
  return block != nullptr;
}

// How much of what was read must still stand there, so that the rest may be what came behind it.
constexpr size_t kTail = 256;

using Values = std::vector<std::pair<std::string, record::Value>>;

// {"a": {"b": 1}} gives a/b.
void Flatten(const std::string& name, const json& value, Values& out) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items())
      Flatten(fmt::format("{}/{}", name, key), child, out);
  } else if (!value.is_null()) {
    out.emplace_back(name, record::FromJson(value));
  }
}

// "metrics": {"mAP": 0.3} gives mAP; a number alone, "metrics": 0.3, has no other name.
void FlattenMembers(const std::string& name, const json& value, Values& out) {
  if (!value.is_object()) return Flatten(name, value, out);
  for (const auto& [key, child] : value.items()) Flatten(key, child, out);
}

int64_t IntegerOf(const json& object, const char* key, int64_t fallback) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return fallback;
  double number = found->get<double>();
  if (!(number > -9e18 && number < 9e18)) return fallback;
  return found->is_number_integer() ? found->get<int64_t>() : static_cast<int64_t>(number);
}

std::string TextOf(const json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A number or a word for one: what stands for it in JSON, and its length; 0: neither. NaN and
// infinities are taken as Python, C and awk write them; beyond a double is an infinity.
std::pair<std::string, size_t> NumberAt(const std::string& line, size_t at) {
  static constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"-Infinity", "\"-Infinity\""},
      {"Infinity", "\"Infinity\""},
      {"NaN", "\"NaN\""},
      {"-NaN", "\"NaN\""},
      {"-inf", "\"-Infinity\""},
      {"inf", "\"Infinity\""},
      {"-nan", "\"NaN\""},
      {"nan", "\"NaN\""}};
  char c = line[at];
  if (c == '-' || c == 'I' || c == 'N' || c == 'i' || c == 'n') {
    for (const auto& [word, quoted] : kWords) {
      if (line.compare(at, word.size(), word) == 0) return {quoted, word.size()};
    }
  }
  if (c != '-' && (c < '0' || c > '9')) return {"", 0};
  size_t end = std::min(line.find_first_not_of("+-.0123456789eE", at), line.size());
  std::string number = line.substr(at, end - at);
  bool large = number.size() > 300 || number.find_first_of("eE") != std::string::npos;
  char* rest = nullptr;
  if (large && std::isinf(std::strtod(number.c_str(), &rest)) && *rest == '\0')
    return {c == '-' ? "\"-Infinity\"" : "\"Infinity\"", number.size()};
  return {number, number.size()};
}

size_t EscapeLength(const std::string& line, size_t at) {
  size_t n = at + 1 < line.size() && line[at + 1] == 'u' ? 6 : 2;
  return std::min(n, line.size() - at);
}

// Half of a pair, as Python writes bytes of a name that aren't UTF-8.
bool LoneSurrogate(const std::string& line, size_t at) {
  auto unit = [&](size_t i) {
    bool escape = i + 6 <= line.size() && line[i] == '\\' && line[i + 1] == 'u';
    return escape ? std::strtol(line.substr(i + 2, 4).c_str(), nullptr, 16) : 0;
  };
  auto high = [](long u) { return u >= 0xD800 && u < 0xDC00; };
  auto low = [](long u) { return u >= 0xDC00 && u < 0xE000; };
  long u = unit(at);
  if (high(u)) return !low(unit(at + 6));
  return low(u) && !(at >= 6 && high(unit(at - 6)));
}

}  // namespace

std::string QuoteSpecialNumbers(const std::string& line) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < line.size();) {
    if (in_string) {
      size_t n = line[i] == '\\' ? EscapeLength(line, i) : 1;
      if (line[i] == '"') in_string = false;
      bool lone = n == 6 && LoneSurrogate(line, i);
      lone ? out += "\\ufffd" : out.append(line, i, n);
      i += n;
      continue;
    }
    auto [number, n] = NumberAt(line, i);
    if (n > 0) {
      out += number;
      i += n;
      continue;
    }
    in_string = line[i] == '"';
    out += line[i++];
  }
  return out;
}

void MetricsFile::Bad(const std::string& why, const char* code) {
  // A program that writes something else altogether would fill the record with complaints.
  if (++bad_lines_ > 20) return;
  writer_.Warning(code, fmt::format("{}:{}: {}", file_.string(), line_, why));
}

bool MetricsFile::Recorded(const fs::path& checkpoint) const {
  return recorded_.count(checkpoint.lexically_normal().string()) > 0;
}

void MetricsFile::AddCheckpoint(const fs::path& path) {
  fs::path file = (path.is_absolute() ? path : work_dir_ / path).lexically_normal();
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // a pipe would be waited for
    return writer_.Warning("metrics.checkpoint", file.string() + ": is no regular file", step_);
  }
  int64_t bytes = static_cast<int64_t>(fs::file_size(file, error));
  try {
    std::string hash = HashFile(file).Hex();
    writer_.Checkpoint({file.string(), hash, epoch_, step_, error ? 0 : bytes});
    recorded_[file.string()] = true;
  } catch (const Error& e) {
    writer_.Warning("metrics.checkpoint", e.what(), step_);
  }
}

void MetricsFile::Step(const json& object) {
  step_ = IntegerOf(object, "step", next_step_);
  next_step_ = step_ + 1;
  Values values;
  for (const auto& [key, value] : object.items()) {
    if (key != "step" && key != "epoch" && key != "checkpoint") Flatten(key, value, values);
  }
  for (auto& [name, value] : values) writer_.Point(name, step_, std::move(value));
}

void MetricsFile::Epoch(const json& object) {
  record::EpochRow row;
  row.epoch = epoch_;
  row.step = step_ = IntegerOf(object, "step", next_step_);
  for (const auto& [key, value] : object.items()) {
    if (key == "epoch" || key == "step" || key == "checkpoint") continue;
    if (key == "losses")
      FlattenMembers(key, value, row.losses);
    else if (key == "metrics")
      FlattenMembers(key, value, row.metrics);
    else if (key == "weights_hash" && value.is_string())
      row.weights_hash = value.get<std::string>();
    else if (key == "optimizer_hash" && value.is_string())
      row.optimizer_hash = value.get<std::string>();
    else if (key == "seconds" && value.is_number())
      row.train_seconds = value.get<double>();
    else if (key == "images_per_second" && value.is_number())
      row.images_per_second = value.get<double>();
    else
      Flatten(key, value, row.metrics);
  }
  if (add_to_epoch) add_to_epoch(row);
  writer_.Epoch(std::move(row));
}

void MetricsFile::Take(const std::string& line) {
  const size_t before = static_cast<size_t>(line_++);
  const uint64_t hash = HashBytes(line).low;
  if (before < taken_.size()) {
    if (taken_[before] == hash) return;
    taken_.resize(before);
    Bad("the file was written anew; from this line on it differs, and is taken, too",
        "metrics.rewritten");
  }
  taken_.push_back(hash);
  Line(line);
}

void MetricsFile::Line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  if (record::JsonDepth(line) > record::kDeepestJson) return Bad("nested too deeply");
  if (!MemoryFor(line.size()))
    return Bad(fmt::format("no memory to read a line of {} bytes", line.size()));
  json object = json::parse(QuoteSpecialNumbers(ValidUtf8(line)), nullptr, false);
  if (!object.is_object()) return Bad(fmt::format("not a JSON object ({} bytes)", line.size()));
  bool has_epoch = object.contains("epoch"), has_step = object.contains("step");
  if (has_epoch)
    epoch_ =
        static_cast<int>(std::clamp<int64_t>(IntegerOf(object, "epoch", epoch_), 0, INT32_MAX));
  if (object.contains("warning")) {
    std::string code = TextOf(object, "code");
    return writer_.Warning(code.empty() ? "trainer" : code, TextOf(object, "warning"),
                           IntegerOf(object, "step", -1));
  }
  if (object.contains("start"))
    return writer_.Start(object["start"].dump(-1, ' ', false, json::error_handler_t::replace), "");
  bool ended =
      object.contains("metrics") || object.contains("losses") || object.contains("weights_hash");
  if (has_epoch && (ended || !has_step) && (ended || !object.contains("checkpoint")))
    Epoch(object);
  else if (object.size() >
           (object.contains("checkpoint") ? 1u : 0u) + (has_epoch ? 1u : 0u) + (has_step ? 1u : 0u))
    Step(object);
  else if (has_step)
    step_ = IntegerOf(object, "step", step_);
  if (std::string path = TextOf(object, "checkpoint"); !path.empty()) AddCheckpoint(path);
}

// A program may truncate the file, or put another one in its place.
bool MetricsFile::StillHolds(std::ifstream& in) const {
  in.seekg(offset_ - static_cast<int64_t>(tail_.size()));
  std::string there(tail_.size(), '\0');
  in.read(there.data(), static_cast<std::streamsize>(there.size()));
  return in.gcount() == static_cast<std::streamsize>(tail_.size()) && there == tail_;
}

void MetricsFile::BeginAgain() {
  offset_ = line_ = 0;
  rest_.clear();
  tail_.clear();
}

void MetricsFile::Poll(bool last) {
  std::ifstream in(file_, std::ios::binary);
  if (!in) return;
  if (!StillHolds(in)) BeginAgain();
  in.clear();
  in.seekg(offset_);
  char buffer[1 << 16];
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    const auto size = static_cast<size_t>(in.gcount());
    offset_ += in.gcount();
    tail_.append(buffer, size);
    if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
    rest_.append(buffer, size);
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      Take(rest_.substr(begin, end - begin));
    }
    rest_.erase(0, begin);
    if (rest_.size() > kLongestLine) {
      taken_.resize(static_cast<size_t>(line_++));
      taken_.push_back(0);
      Bad("a line longer than 64 MiB");
      rest_.clear();
    }
  }
  if (last && !rest_.empty()) {
    Take(rest_);
    rest_.clear();
  }
}

}  // namespace xp::cli
