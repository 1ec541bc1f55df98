// Named tensors in a file, whatever its format: what `load_from`, checkpoints and `exp weights`
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xp::train {

enum class ElementType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

size_t ElementSize(ElementType type);
// safetensors' names: "F32", "BF16", "I64", ...
const char* ElementName(ElementType type);
bool IsFloat(ElementType type);

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;  // row-major, in the order of the file (torch: OIHW); {} is a scalar

  // Readers have checked that neither overflows.
  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * ElementSize(type); }
};

std::string ShapeText(const std::vector<int64_t>& shape);  // "[64, 3, 7, 7]"

// A tensor of a kind that isn't read (complex, 8-bit floats, quantised, sparse): its values can't
// be had, those of the others can.
struct UnreadTensor {
  std::string name;
  std::string kind;      // "has dtype F8_E4M3"
  std::string expected;  // what it would have to be
  std::string next;      // how to make it that
  std::string source;    // its name in the file, where it is seen under another
};
// "2 tensors are of kinds that aren't read: `a` (has dtype C64), `b` (...)"; "" for none.
std::string UnreadText(const std::vector<UnreadTensor>& unread);

// Tensors are read when asked for, so that a large file needs little memory. Not thread-safe.
class TensorFile {
 public:
  virtual ~TensorFile() = default;

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& format() const { return format_; }  // "safetensors", "pth", "pth (legacy)"
  const std::string& path() const { return path_; }      // for messages
  const TensorInfo* Find(std::string_view name) const;   // null when absent
  const std::vector<UnreadTensor>& unread() const { return unread_; }  // sorted by name
  // A UsageError about the tensor of that name where it is one of unread().
  void RequireRead(std::string_view name) const;

  // The bytes of one of tensors(), row-major, little-endian. Throws UsageError where the file can't
  // be read (it shrank meanwhile, say).
  virtual std::vector<std::byte> Read(const TensorInfo& info) const = 0;
  // The same as floats; f64, f16, bf16 and integers are converted (rounded to nearest even).
  // Throws UsageError where there is no such tensor.
  std::vector<float> ReadFloats(std::string_view name) const;

 protected:
  // Find() wants that; once, when both lists are whole.
  void SortByName();

  std::vector<TensorInfo> tensors_;
  std::vector<UnreadTensor> unread_;
  std::map<std::string, std::string> metadata_;
  std::string format_, path_;
};

// Opens a .safetensors or a .pth file, told apart by content. Throws UsageError for everything that
// is wrong with it: where it can't be opened, is of another kind, or contradicts itself. Tensors of
// kinds that aren't read are no error: they are in unread().
std::unique_ptr<TensorFile> OpenTensorFile(const std::filesystem::path& path);

// Between element types; `count` values. The target's size must be count * ElementSize.
void ToFloats(ElementType type, const std::byte* from, size_t count, float* to);
// F32, F16 and BF16 only; rounds to nearest even, out of range gives infinity.
void FromFloats(ElementType type, const float* from, size_t count, std::byte* to);

// Whether a key or prefix says that what is behind it is an average of weights: "model_ema",
// "teacher.".
bool NamesAverage(std::string_view name);

}  // namespace xp::train
