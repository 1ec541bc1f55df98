#include "exp/train/safetensors.h"
#include "exp/train/tensor_file.h"

namespace xp::train {

std::unique_ptr<TensorFile> OpenTensorFile(const std::filesystem::path& path) {
  return OpenSafetensors(path);
}

}  // namespace xp::train
