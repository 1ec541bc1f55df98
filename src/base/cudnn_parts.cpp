#include "exp/base/cudnn_parts.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace xp {

std::string MissingCudnnPart(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  const std::filesystem::path file = map->l_name;
  if (!file.filename().string().starts_with("libcudnn.so.9")) return "";
  // As cuDNN does: beside itself, else where the loader looks.
  const std::string part = "libcudnn_graph.so.9";
  if (::dlopen((file.parent_path() / part).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return "";
  if (::dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return "";
  const char* reason = ::dlerror();
  return reason != nullptr ? reason : part + " can't be loaded";
}

}  // namespace xp
