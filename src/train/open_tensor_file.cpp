#include <algorithm>

#include "exp/base/error.h"
#include "exp/base/file_kind.h"
#include "exp/train/pth.h"
#include "exp/train/safetensors.h"
#include "exp/train/tensor_file.h"
#include "src/train/pth_storage.h"
#include "src/train/random_access.h"

namespace xp::train {

std::unique_ptr<TensorFile> OpenTensorFile(const std::filesystem::path& path) {
  std::string head(64, '\0');
  {
    RandomAccess file(path);
    head.resize(std::min<uint64_t>(head.size(), file.size()));
    file.ReadAt(0, head.data(), head.size());
  }
  // A safetensors file begins with a small number, then `{`; its own reader says what is wrong with
  // the rest.
  bool pth = LooksLikeZip(head) || LooksLikePickle(head) || path.extension() == ".pth" ||
             path.extension() == ".pt";
  bool safetensors = head.size() > 8 && head[8] == '{';
  const bool known = safetensors || LooksLikeZip(head) || LooksLikePickle(head);
  const std::string other =
      known ? "" : OtherKind({reinterpret_cast<const uint8_t*>(head.data()), head.size()});
  if (head.empty() || !other.empty()) {
    throw UsageError({.what = head.empty() ? "the file is empty" : "this is " + other,
                      .where = path.string(),
                      .expected = "weights, as .safetensors or as torch.save's .pth",
                      .next = head.empty() ? "fetch or write it again" : AdviceFor(other)});
  }
  return pth && !safetensors ? OpenPth(path) : OpenSafetensors(path);
}

}  // namespace xp::train
