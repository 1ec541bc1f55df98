// The safetensors format: 8 bytes little-endian header length, a JSON header, the tensors' bytes.
// Source: https://github.com/huggingface/safetensors, README.md "Format" and
// safetensors/src/tensor.rs; what that implementation (0.8.0) reads is read and what it refuses is
// refused here, each with its place, but for dtypes that it doesn't know, which are passed over,
// and for what only the README forbids (a name given twice, a space before the header), which is
// refused.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exp/base/hash.h"
#include "exp/train/tensor_file.h"

namespace xp::train {

// Throws UsageError naming the path and the byte or the tensor: header length, JSON, duplicate
// names, shape against offsets, overlaps and holes between tensors, bytes missing or too many.
std::unique_ptr<TensorFile> OpenSafetensors(const std::filesystem::path& path);

// A tensor to be written; the bytes belong to the caller.
struct TensorView {
  TensorInfo info;
  const void* data = nullptr;  // info.bytes() of it
};

// Writes atomically: a reader sees the old file or the whole new one. The same tensors and metadata
// give the same bytes: tensors go by element size (wide first, so that each stays aligned), then
// name. Returns the content's hash. Throws JobError where it can't be written; two tensors of one
// name or a name "__metadata__" are a UsageError.
Hash128 WriteSafetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata);

// A hash over metadata (less `without`), names, shapes and bytes, that can be stored in the file
// itself.
Hash128 HashSafetensors(std::span<const TensorView> tensors,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& without);
Hash128 HashSafetensors(const TensorFile& file, const std::string& without);

}  // namespace xp::train
