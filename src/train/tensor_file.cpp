#include "exp/train/tensor_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "exp/base/error.h"
#include "exp/train/safetensors.h"

namespace xp::train {
namespace {

struct TypeRow {
  const char* name;
  size_t size;
  bool is_float;
};

// In the order of ElementType.
constexpr TypeRow kTypes[] = {
    {"F64", 8, true},  {"F32", 4, true},  {"F16", 2, true},  {"BF16", 2, true}, {"I64", 8, false},
    {"I32", 4, false}, {"I16", 2, false}, {"I8", 1, false},  {"U64", 8, false}, {"U32", 4, false},
    {"U16", 2, false}, {"U8", 1, false},  {"BOOL", 1, false}};

const TypeRow& Row(ElementType type) { return kTypes[static_cast<size_t>(type)]; }

// IEEE 754 binary16 to binary32; exact.
float HalfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 0x1F, mantissa = half & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float value = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -value : value;
}

// Binary32 to binary16, nearest even.
uint16_t FloatToHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, a multiple of 2^-24
    float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

uint16_t FloatToBfloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T Load(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Convert(const std::byte* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(Load<T>(from, i));
}

}  // namespace

size_t ElementSize(ElementType type) { return Row(type).size; }
const char* ElementName(ElementType type) { return Row(type).name; }
bool IsFloat(ElementType type) { return Row(type).is_float; }

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  return count;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const TensorInfo* TensorFile::Find(std::string_view name) const {
  auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                             [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

void TensorFile::SortByName() {
  const auto before = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(tensors_.begin(), tensors_.end(), before);
  std::sort(unread_.begin(), unread_.end(), before);
}

void TensorFile::RequireRead(std::string_view name) const {
  auto at = std::find_if(unread_.begin(), unread_.end(),
                         [&](const UnreadTensor& t) { return t.name == name; });
  if (at == unread_.end()) return;
  throw UsageError(
      {.what = at->kind,
       .where = fmt::format("{}: tensor `{}`", path_, at->source.empty() ? at->name : at->source),
       .expected = at->expected,
       .next = at->next});
}

std::string UnreadText(const std::vector<UnreadTensor>& unread) {
  if (unread.empty()) return "";
  constexpr size_t kShown = 5;
  std::string text = fmt::format(
      "{} of kinds that aren't read: ",
      unread.size() == 1 ? "1 tensor is" : fmt::format("{} tensors are", unread.size()));
  for (size_t i = 0; i < std::min(kShown, unread.size()); ++i) {
    const UnreadTensor& tensor = unread[i];
    text += fmt::format("{}`{}` ({})", i == 0 ? "" : ", ",
                        tensor.source.empty() ? tensor.name : tensor.source, tensor.kind);
  }
  return unread.size() > kShown ? text + ", ..." : text;
}

std::vector<float> TensorFile::ReadFloats(std::string_view name) const {
  RequireRead(name);
  const TensorInfo* info = Find(name);
  if (info == nullptr) {
    throw UsageError({.what = fmt::format("has no tensor `{}`", name),
                      .where = path_,
                      .next = "`exp weights show` lists what it has"});
  }
  std::vector<std::byte> bytes = Read(*info);
  std::vector<float> values(static_cast<size_t>(info->elements()));
  ToFloats(info->type, bytes.data(), values.size(), values.data());
  return values;
}

void ToFloats(ElementType type, const std::byte* from, size_t count, float* to) {
  switch (type) {
    case ElementType::kF64:
      return Convert<double>(from, count, to);
    case ElementType::kF32:
      if (count > 0) std::memcpy(to, from, count * 4);
      return;
    case ElementType::kF16:
      for (size_t i = 0; i < count; ++i) to[i] = HalfToFloat(Load<uint16_t>(from, i));
      return;
    case ElementType::kBF16:
      for (size_t i = 0; i < count; ++i) {
        to[i] = std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(from, i)) << 16);
      }
      return;
    case ElementType::kI64:
      return Convert<int64_t>(from, count, to);
    case ElementType::kI32:
      return Convert<int32_t>(from, count, to);
    case ElementType::kI16:
      return Convert<int16_t>(from, count, to);
    case ElementType::kI8:
      return Convert<int8_t>(from, count, to);
    case ElementType::kU64:
      return Convert<uint64_t>(from, count, to);
    case ElementType::kU32:
      return Convert<uint32_t>(from, count, to);
    case ElementType::kU16:
      return Convert<uint16_t>(from, count, to);
    case ElementType::kU8:
    case ElementType::kBool:
      return Convert<uint8_t>(from, count, to);
  }
}

void FromFloats(ElementType type, const float* from, size_t count, std::byte* to) {
  if (type == ElementType::kF32) {
    if (count > 0) std::memcpy(to, from, count * 4);
    return;
  }
  if (type != ElementType::kF16 && type != ElementType::kBF16) {
    throw UsageError({.what = fmt::format("floats can't be stored as {}", ElementName(type)),
                      .expected = "F32, F16 or BF16"});
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t value = type == ElementType::kF16 ? FloatToHalf(from[i]) : FloatToBfloat(from[i]);
    std::memcpy(to + 2 * i, &value, 2);
  }
}

bool NamesAverage(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && letter(name[end])) ++end;
    const std::string_view word = name.substr(at, end - at);
    for (std::string_view average : {"ema", "averaged", "average", "teacher", "swa"}) {
      if (word == average) return true;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace xp::train
