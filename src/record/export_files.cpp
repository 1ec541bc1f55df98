// CSV, TensorBoard event files, MLflow's file store.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "exp/base/error.h"
#include "exp/base/escape.h"
#include "exp/base/file.h"
#include "exp/record/export.h"
#include "exp/record/reader.h"

namespace fs = std::filesystem;

namespace xp::record {
namespace {

std::string Number(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", v);
}

std::string Plain(const Value& value) {
  if (const double* x = std::get_if<double>(&value)) return Number(*x);
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  return std::get<JsonText>(value).text;
}

// No text and no list.
bool IsScalar(const Value& value) {
  return !std::holds_alternative<JsonText>(value) || !std::isnan(AsDouble(value));
}

void MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError({.what = "the folder can't be made: " + error.message(),
                      .where = folder.string(),
                      .next = "name another one with --out"});
}

// CRC-32C (Castagnoli), masked as TFRecord asks:
// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
uint32_t MaskedCrc(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
      table[i] = c;
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (unsigned char b : bytes) crc = kTable[(crc ^ b) & 255] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
std::string Raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string Varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}

// Protocol buffers, wire types 0 (varint), 1 (64 bits), 2 (bytes), 5 (32 bits).
std::string Bytes(int field, const std::string& content) {
  return Varint(static_cast<uint64_t>(field << 3 | 2)) + Varint(content.size()) + content;
}

std::string Record(const std::string& data) {
  std::string length = Raw(static_cast<uint64_t>(data.size()));
  return length + Raw(MaskedCrc(length)) + data + Raw(MaskedCrc(data));
}

// tensorflow/core/util/event.proto: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string Event(double wall, int64_t step, const std::string& rest) {
  return Record(Varint(1 << 3 | 1) + Raw(wall) + Varint(2 << 3) +
                Varint(static_cast<uint64_t>(step)) + rest);
}

std::string Scalar(const std::string& tag, double value) {
  std::string v = Bytes(1, tag) + Varint(2 << 3 | 5) + Raw(static_cast<float>(value));
  return Bytes(5, Bytes(1, v));
}

// mlflow.utils.validation: names may hold alphanumerics, '_', '-', '.', ' ', ':' and '/'.
std::string MlflowName(const std::string& name) {
  std::string out;
  for (char c : name) {
    bool fine = std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-. /", c);
    out += fine && c ? c : '_';
  }
  fs::path clean;
  for (const fs::path& part : fs::path(out).relative_path()) {
    // A file's name may have 255 bytes, of which some are for a number and while it is written.
    if (part != ".." && part != "." && !part.empty()) clean /= part.string().substr(0, 200);
  }
  std::string text = clean.string().substr(0, 230);
  if (!text.empty() && text.back() == '/') text.pop_back();
  return text.empty() ? "_" : text;
}

// In double quotes. What YAML's readers refuse or fold (control characters, line ends of Unicode)
// is escaped.
std::string YamlText(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const std::string three = text.substr(i, 3);
    if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 .. U+009F
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else if (three == "\u2028" || three == "\u2029") {
      out += three == "\u2028" ? "\\L" : "\\P";
      i += 2;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text[i];
    }
  }
  return out + '"';
}

std::string FileUri(const fs::path& path) {
  return "file://" + PercentEncoded(fs::absolute(path).lexically_normal().string(), "/");
}

// Lines of a metric's file, by name.
std::map<std::string, std::string> MlflowEpochs(const Run& run, const Named EpochRecord::*list) {
  std::map<std::string, std::string> out;
  for (const EpochRecord& e : run.epochs) {
    for (const auto& [name, value] : e.*list) {
      if (!IsScalar(value)) continue;
      out[name] +=
          fmt::format("{} {} {}\n", e.ended_ns / 1'000'000, Number(AsDouble(value)), e.step);
    }
  }
  return out;
}

void Put(const fs::path& file, const std::string& content) {
  MakeFolder(file.parent_path());
  WriteFileAtomic(file, content);
}

int64_t StartOf(const Run& run, int attempt) {
  for (const Attempt& a : run.attempts) {
    if (a.number == attempt) return a.started_ns;
  }
  return run.created_ns;
}

// A name that another one already took on disk, or that is a folder of one, gets a number; where
// another's file is to be a folder of this one, that folder's name gets it.
std::string Unique(const std::string& name, std::set<std::string>& taken) {
  auto clash = [&](const std::string& n) {
    return std::any_of(taken.begin(), taken.end(), [&](const std::string& t) {
      return t == n || t.rfind(n + "/", 0) == 0 || n.rfind(t + "/", 0) == 0;
    });
  };
  size_t end = name.size();  // where the number goes
  for (const std::string& t : taken) {
    if (name.rfind(t + "/", 0) == 0) end = std::min(end, t.size());
  }
  std::string tried = name;
  for (int i = 2; clash(tried); ++i) {
    tried = name.substr(0, end) + "_" + std::to_string(i) + name.substr(end);
  }
  taken.insert(tried);
  return tried;
}

}  // namespace

void ExportCsv(const Store& store, int64_t seq, const fs::path& folder) {
  Run run = LoadRun(store, seq);
  std::string curves = "name,step,attempt,at_ms,value\r\n";
  for (const std::string& name : CurveNames(store, seq)) {
    for (const CurvePoint& p : LoadCurve(store, seq, name)) {
      curves += fmt::format("{},{},{},{},{}\r\n", CsvCell(name), p.step, p.attempt, p.at_ms,
                            CsvCell(Plain(p.value)));
    }
  }
  std::string epochs = "epoch,step,kind,name,value\r\n", config = "path,value,origin\r\n";
  for (const EpochRecord& e : run.epochs) {
    auto put = [&](const char* kind, const Named& values) {
      for (const auto& [name, value] : values) {
        epochs += fmt::format("{},{},{},{},{}\r\n", e.epoch, e.step, kind, CsvCell(name),
                              CsvCell(Plain(value)));
      }
    };
    put("loss", e.losses);
    put("metric", e.metrics);
    put("gpu", e.gpu);
    put("hash", {{"weights", JsonText{e.weights_hash}}, {"optimizer", JsonText{e.optimizer_hash}}});
  }
  for (const ConfigValue& v : run.config) {
    config += fmt::format("{},{},{}\r\n", CsvCell(v.path), CsvCell(v.value), CsvCell(v.origin));
  }
  Put(folder / "curves.csv", curves);
  Put(folder / "epochs.csv", epochs);
  Put(folder / "config.csv", config);
}

void ExportTensorBoard(const Store& store, int64_t seq, const fs::path& folder) {
  Run run = LoadRun(store, seq);
  double began = static_cast<double>(run.created_ns) * 1e-9;
  std::string out = Event(began, 0, Bytes(3, "brain.Event:2"));
  for (const std::string& name : CurveNames(store, seq)) {
    for (const CurvePoint& p : LoadCurve(store, seq, name)) {
      if (!IsScalar(p.value)) continue;
      double wall =
          static_cast<double>(StartOf(run, p.attempt)) * 1e-9 + static_cast<double>(p.at_ms) * 1e-3;
      out += Event(wall, p.step, Scalar(name, AsDouble(p.value)));
    }
  }
  for (const EpochRecord& e : run.epochs) {
    double wall = static_cast<double>(e.ended_ns) * 1e-9;
    for (const auto& [name, value] : e.metrics)
      if (IsScalar(value)) out += Event(wall, e.step, Scalar("metric/" + name, AsDouble(value)));
    for (const auto& [name, value] : e.losses)
      if (IsScalar(value)) out += Event(wall, e.step, Scalar("epoch/" + name, AsDouble(value)));
  }
  Put(folder / fmt::format("events.out.tfevents.{}.exp.{}", run.created_ns / 1'000'000'000, run.id),
      out);
}

void ExportMlflow(const Store& store, int64_t seq, const fs::path& folder) {
  Run run = LoadRun(store, seq);
  int64_t start = run.created_ns / 1'000'000, end = run.ended_ns / 1'000'000;
  fs::path experiment = folder / "0", root = experiment / run.id;
  if (!fs::exists(experiment / "meta.yaml")) {
    Put(experiment / "meta.yaml",
        fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '0'\n"
                    "last_update_time: {}\nlifecycle_stage: active\nname: Default\n",
                    FileUri(experiment), start, start));
  }
  // mlflow.entities.RunStatus: 1 running, 3 finished, 4 failed, 5 killed.
  int status = run.state == "running"    ? 1
               : run.state == "finished" ? 3
               : run.state == "failed"   ? 4
                                         : 5;
  Put(root / "meta.yaml",
      fmt::format(
          "artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '0'\n"
          "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\n"
          "source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: "
          "exp\n",
          FileUri(root / "artifacts"), end > 0 ? std::to_string(end) : "null", YamlText(run.id),
          YamlText(run.name), YamlText(run.id), start, status));
  MakeFolder(root / "artifacts");
  std::set<std::string> taken;
  for (const std::string& name : CurveNames(store, seq)) {
    std::string lines;
    for (const CurvePoint& p : LoadCurve(store, seq, name)) {
      if (!IsScalar(p.value)) continue;
      lines += fmt::format("{} {} {}\n", StartOf(run, p.attempt) / 1'000'000 + p.at_ms,
                           Number(AsDouble(p.value)), p.step);
    }
    if (!lines.empty()) Put(root / "metrics" / Unique(MlflowName(name), taken), lines);
  }
  auto put_epochs = [&](const char* prefix, const Named EpochRecord::*list) {
    for (const auto& [name, lines] : MlflowEpochs(run, list))
      Put(root / "metrics" / Unique(MlflowName(prefix + name), taken), lines);
  };
  put_epochs("", &EpochRecord::metrics);
  put_epochs("epoch/", &EpochRecord::losses);
  taken.clear();
  for (const ConfigValue& v : run.config)
    Put(root / "params" / Unique(MlflowName(v.path), taken), v.value);
  Put(root / "tags" / "mlflow.runName", run.name);
  taken = {"mlflow.runName"};
  for (const std::string& tag : run.tags)
    Put(root / "tags" / Unique(MlflowName("tag." + tag), taken), "true");
}

}  // namespace xp::record
