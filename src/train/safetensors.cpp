#include "exp/train/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "src/train/random_access.h"

namespace xp::train {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the Rust implementation
constexpr const char* kMetadataKey = "__metadata__";

Error Malformed(const std::string& path, const std::string& place, std::string what,
                std::string expected = {}) {
  return UsageError(
      {.what = std::move(what),
       .where = place.empty() ? path : fmt::format("{}: {}", path, place),
       .expected = std::move(expected),
       .next = "the file is damaged or no safetensors file; fetch or write it again"});
}

// Looks for what a JSON library takes without a word: a name given twice, of which it drops one,
// and nesting without end, which would fill the memory.
class HeaderCheck : public nlohmann::json_sax<json> {
 public:
  std::string problem;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    problem = fmt::format("`{}` is given twice", name);
    return false;
  }
  // Bad syntax: the parser that follows says where.
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Enter() {
    // The format has three, but keys that it doesn't know may hold more; this is the Rust
    // implementation's limit.
    constexpr size_t kDeepest = 127;
    keys_.emplace_back();
    if (keys_.size() <= kDeepest) return true;
    problem = fmt::format("is nested deeper than {} levels", kDeepest);
    return false;
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> keys_;
};

json ParseHeader(const std::string& path, const std::string& text) {
  // Where it stands behind the object, the JSON library takes it for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    throw Malformed(path, fmt::format("byte {}", kLengthBytes + zero),
                    "a zero byte is in the header", "JSON, and spaces to fill it up");
  }
  HeaderCheck check;
  json::sax_parse(text, &check);
  if (!check.problem.empty()) throw Malformed(path, "header", check.problem);
  try {
    json header = json::parse(text);
    if (!header.is_object()) throw Malformed(path, "header", "is not an object", "{...}");
    return header;
  } catch (const json::parse_error& e) {
    throw Malformed(path, fmt::format("byte {}", kLengthBytes + e.byte - 1),
                    "the header is not valid JSON");
  }
}

std::map<std::string, std::string> ParseMetadata(const std::string& path, const json& node) {
  std::map<std::string, std::string> metadata;
  if (node.is_null()) return metadata;  // as the Rust implementation reads it
  if (!node.is_object()) throw Malformed(path, "__metadata__", "is not an object of strings");
  for (const auto& [key, value] : node.items()) {
    if (!value.is_string()) {
      throw Malformed(path, fmt::format("__metadata__ `{}`", key), "is not a string");
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

std::optional<ElementType> TypeNamed(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    if (name == ElementName(static_cast<ElementType>(i))) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

// Of the format's types that aren't read; 0: not one of them, as a later version may have.
uint64_t BitsOfOther(std::string_view name) {
  static constexpr std::pair<std::string_view, uint64_t> kBits[] = {
      {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [known, bits] : kBits)
    if (known == name) return bits;
  return 0;
}

uint64_t ParseUnsigned(const std::string& path, const std::string& place, const json& node) {
  if (!node.is_number_unsigned()) {
    throw Malformed(path, place, "a shape or an offset is no whole number", "an integer from 0");
  }
  return node.get<uint64_t>();
}

struct Placed {
  TensorInfo info;
  std::string other_type;       // of a dtype that isn't read: its name, and info.type means nothing
  uint64_t begin = 0, end = 0;  // in the data part
};

Placed ParseTensor(const std::string& path, const std::string& name, const json& node) {
  std::string place = fmt::format("tensor `{}`", name);
  // Further keys say nothing to us, as to the Rust implementation.
  if (!node.is_object() || !node.contains("dtype") || !node.contains("shape") ||
      !node.contains("data_offsets")) {
    throw Malformed(path, place, "its entry is not as the format says",
                    "dtype, shape and data_offsets");
  }
  if (!node["dtype"].is_string()) throw Malformed(path, place, "`dtype` is not a string");
  const auto dtype = node["dtype"].get<std::string>();
  Placed tensor;
  tensor.info.name = name;
  const std::optional<ElementType> type = TypeNamed(dtype);
  if (type)
    tensor.info.type = *type;
  else
    tensor.other_type = dtype;
  const json& shape = node["shape"];
  const json& offsets = node["data_offsets"];
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw Malformed(path, place, "`shape` or `data_offsets` is no list",
                    "[d, ...] and [begin, end]");
  }
  uint64_t bits = type ? 8 * ElementSize(*type) : BitsOfOther(dtype);
  const bool size_known = bits != 0;
  for (const json& dimension : shape) {
    uint64_t d = ParseUnsigned(path, place, dimension);
    if (d > INT64_MAX || __builtin_mul_overflow(bits, d, &bits) || bits > INT64_MAX) {
      throw Malformed(path, place, "its shape is larger than any file");
    }
    tensor.info.shape.push_back(static_cast<int64_t>(d));
  }
  tensor.begin = ParseUnsigned(path, place, offsets[0]);
  tensor.end = ParseUnsigned(path, place, offsets[1]);
  const uint64_t bytes = (bits + 7) / 8;
  if (tensor.end < tensor.begin || (size_known && tensor.end - tensor.begin != bytes)) {
    throw Malformed(path, place,
                    fmt::format("offsets [{}, {}] don't fit {} {}", tensor.begin, tensor.end, dtype,
                                ShapeText(tensor.info.shape)),
                    fmt::format("{} bytes", bytes));
  }
  return tensor;
}

// Tensors must lie one after another without gaps or overlaps and fill the file.
void CheckPlaces(const std::string& path, std::vector<Placed>& tensors, uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const Placed& tensor : tensors) {
    if (tensor.begin != at) {
      throw Malformed(path, fmt::format("tensor `{}`", tensor.info.name),
                      fmt::format("begins at {} and {}", tensor.begin,
                                  tensor.begin < at ? "overlaps the one before" : "leaves a hole"),
                      fmt::format("offset {}", at));
    }
    at = tensor.end;
  }
  if (at != data_bytes) {
    throw Malformed(path, "",
                    fmt::format("has {} bytes of tensors, its header describes {}", data_bytes, at),
                    at > data_bytes ? "a file that is not cut off" : "nothing after the tensors");
  }
}

class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    path_ = path.string();
    format_ = "safetensors";
    ReadHeader();
  }

  std::vector<std::byte> Read(const TensorInfo& info) const override {
    return file_.ReadAt(data_begin_ + begin_.at(info.name), info.bytes());
  }

 private:
  void ReadHeader() {
    if (file_.size() < kLengthBytes)
      throw Malformed(path_, "", "is too short", "8 bytes and a header");
    uint64_t length = 0;
    file_.ReadAt(0, &length, kLengthBytes);
    if (length > kMaxHeader || length > file_.size() - kLengthBytes) {
      char first = '{';
      if (file_.size() > kLengthBytes) file_.ReadAt(kLengthBytes, &first, 1);
      if (first != '{')
        throw Malformed(path_, "", "is no file of weights", "a safetensors or a PyTorch file");
      throw Malformed(path_, "bytes 0-7", fmt::format("the header's length is {}", length),
                      fmt::format("at most {}", std::min(kMaxHeader, file_.size() - kLengthBytes)));
    }
    std::string text(length, '\0');
    file_.ReadAt(kLengthBytes, text.data(), length);
    if (text.empty() || text[0] != '{')
      throw Malformed(path_, "byte 8", "no header begins here", "{");
    std::vector<Placed> placed;
    json header = ParseHeader(path_, text);
    for (const auto& [name, node] : header.items()) {
      if (name == kMetadataKey) {
        metadata_ = ParseMetadata(path_, node);
      } else {
        placed.push_back(ParseTensor(path_, name, node));
      }
    }
    data_begin_ = kLengthBytes + length;
    CheckPlaces(path_, placed, file_.size() - data_begin_);
    for (Placed& tensor : placed) {
      if (!tensor.other_type.empty()) {
        unread_.push_back({.name = tensor.info.name,
                           .kind = "has dtype " + tensor.other_type,
                           .expected = "F64, F32, F16, BF16, BOOL or an integer type",
                           .next = "convert it to F16 or F32 with the program that wrote it"});
        continue;
      }
      begin_.emplace(tensor.info.name, tensor.begin);
      tensors_.push_back(std::move(tensor.info));
    }
    SortByName();
  }

  RandomAccess file_;
  uint64_t data_begin_ = 0;
  std::map<std::string, uint64_t> begin_;
};

bool WrittenBefore(const TensorInfo& a, const TensorInfo& b) {
  size_t x = ElementSize(a.type), y = ElementSize(b.type);
  return x != y ? x > y : a.name < b.name;
}

std::vector<const TensorView*> WritingOrder(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  std::set<std::string> names{kMetadataKey};
  for (const TensorView& tensor : tensors) {
    if (!names.insert(tensor.info.name).second) {
      throw UsageError({.what = fmt::format("tensor `{}` can't be written: the name is taken",
                                            tensor.info.name)});
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return WrittenBefore(a->info, b->info);
  });
  return order;
}

std::vector<const TensorInfo*> Infos(const std::vector<const TensorView*>& order) {
  std::vector<const TensorInfo*> infos;
  infos.reserve(order.size());
  for (const TensorView* tensor : order) infos.push_back(&tensor->info);
  return infos;
}

std::string HeaderText(const std::vector<const TensorInfo*>& order,
                       const std::map<std::string, std::string>& metadata) {
  auto quoted = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("\"{}\":{}", kMetadataKey, quoted(metadata));
  uint64_t at = 0;
  for (const TensorInfo* info : order) {
    uint64_t end = at + info->bytes();
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", quoted(info->name), ElementName(info->type),
                        fmt::join(info->shape, ","), at, end);
    at = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the tensors begin aligned
  return text;
}

}  // namespace

std::unique_ptr<TensorFile> OpenSafetensors(const std::filesystem::path& path) {
  return std::make_unique<SafetensorsFile>(path);
}

Hash128 WriteSafetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> order = WritingOrder(tensors);
  std::string header = HeaderText(Infos(order), metadata);
  uint64_t length = header.size();
  std::string prefix(kLengthBytes, '\0');
  std::memcpy(prefix.data(), &length, kLengthBytes);
  prefix += header;
  std::vector<std::string_view> pieces{prefix};
  for (const TensorView* tensor : order) {
    if (tensor->info.bytes() > 0) {
      pieces.emplace_back(static_cast<const char*>(tensor->data), tensor->info.bytes());
    }
  }
  Hasher hasher;
  for (std::string_view piece : pieces) hasher.Update(piece);
  WriteFileAtomic(path, pieces);
  return hasher.Digest();
}

Hash128 HashSafetensors(std::span<const TensorView> tensors,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& without) {
  std::map<std::string, std::string> hashed = metadata;
  hashed.erase(without);
  std::vector<const TensorView*> order = WritingOrder(tensors);
  Hasher hasher;
  hasher.Update(HeaderText(Infos(order), hashed));
  for (const TensorView* tensor : order) {
    if (tensor->info.bytes() > 0) hasher.Update(tensor->data, tensor->info.bytes());
  }
  return hasher.Digest();
}

Hash128 HashSafetensors(const TensorFile& file, const std::string& without) {
  std::map<std::string, std::string> hashed = file.metadata();
  hashed.erase(without);
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& info : file.tensors()) order.push_back(&info);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return WrittenBefore(*a, *b); });
  Hasher hasher;
  hasher.Update(HeaderText(order, hashed));
  for (const UnreadTensor& other : file.unread()) hasher.Update(other.name);  // none is ours
  for (const TensorInfo* info : order) {
    std::vector<std::byte> bytes = file.Read(*info);
    if (!bytes.empty()) hasher.Update(bytes.data(), bytes.size());
  }
  return hasher.Digest();
}

}  // namespace xp::train
