// PyTorch's files (torch.save), read without Python and without executing what the pickle inside
// asks for: names of functions are compared, never called. Source: torch/serialization.py. Both
// layouts are read: the ZIP archive (since PyTorch 1.6) and the older stream of pickles. The tar
// archives of PyTorch 0.1 and TorchScript archives are refused with what to do.
#pragma once

#include <filesystem>
#include <memory>

#include "exp/train/tensor_file.h"

namespace xp::train {

// The tensors of the state dict: the file's own dict, or the one under `state_dict`, `model` or
// `model_state_dict` in it. Entries that aren't tensors are left out. Numbers and texts beside the
// state dict (an epoch) are metadata. Element types: F64, F32, F16, BF16, I64, I32, I16, I8, U8,
// BOOL. Views into a shared storage are gathered. Throws UsageError: not such a file, compressed or
// cut off, a tensor that leaves its storage.
std::unique_ptr<TensorFile> OpenPth(const std::filesystem::path& path);

}  // namespace xp::train
