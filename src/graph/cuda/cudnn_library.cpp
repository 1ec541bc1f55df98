#include "src/graph/cuda/cudnn_library.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "exp/base/cudnn_parts.h"
#include "exp/base/error.h"
#include "exp/base/library_version.h"
#include "src/graph/cuda/device.h"

namespace xp::graph::cuda {
namespace {

template <typename F>
F* Symbol(const CudnnLibrary& library, const char* name) {
  auto* function = reinterpret_cast<F*>(dlsym(library.handle, name));
  if (function == nullptr) {
    throw UsageError({.what = fmt::format("cuDNN lacks the function {}", name),
                      .where = library.path,
                      .expected = "cuDNN 9",
                      .next = "reinstall cuDNN 9"});
  }
  return function;
}

CudnnLibrary Load() {
  std::vector<std::string> names;
  if (const char* named = std::getenv("EXP_CUDNN"); named != nullptr && *named != '\0') {
    names = {named};
  } else {
    names = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
             "/usr/local/cuda/lib/libcudnn.so.9", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"};
  }
  CudnnLibrary library;
  std::string first_reason;
  for (const std::string& name : names) {
    library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) {
      library.path = name;
      break;
    }
    if (const char* reason = dlerror(); first_reason.empty() && reason != nullptr) {
      first_reason = reason;
    }
  }
  if (library.handle == nullptr) {
    throw UsageError({.what = "cuDNN can't be loaded: " + first_reason,
                      .where = "--device cuda",
                      .expected = "libcudnn.so.9, any minor version",
                      .next = "install cuDNN 9, or point LD_LIBRARY_PATH at its folder or "
                              "EXP_CUDNN at the file"});
  }
  if (const std::string reason = MissingCudnnPart(library.handle); !reason.empty()) {
    throw UsageError({.what = "cuDNN can't load one of its parts: " + reason,
                      .where = library.path,
                      .expected = "all libcudnn_*.so.9 of one version beside it",
                      .next = "install cuDNN 9 anew (`exp doctor` looks at its parts)"});
  }
  library.version = Symbol<decltype(cudnnGetVersion)>(library, "cudnnGetVersion")();
  if (library.version / 10000 != CUDNN_MAJOR) {
    throw UsageError({.what = "cuDNN " + library.version_text() + " was found",
                      .where = library.path,
                      .expected = fmt::format("cuDNN {}, any minor version", CUDNN_MAJOR),
                      .next = "install cuDNN 9, or point LD_LIBRARY_PATH at it"});
  }
  return library;
}

}  // namespace

std::string CudnnLibrary::version_text() const {
  return CudnnVersionText(static_cast<int64_t>(version));
}

const CudnnLibrary& OpenCudnn() {
  static const CudnnLibrary library = Load();
  return library;
}

CudnnHandle::CudnnHandle(cudaStream_t stream) {
  const CudnnLibrary& library = OpenCudnn();
  cudnnStatus_t status = Symbol<decltype(cudnnCreate)>(library, "cudnnCreate")(&handle_);
  if (status != CUDNN_STATUS_SUCCESS) {
    const char* text =
        Symbol<decltype(cudnnGetErrorString)>(library, "cudnnGetErrorString")(status);
    throw UsageError(
        {.what = fmt::format("cuDNN {} doesn't start: {}", library.version_text(), text),
         .where = library.path,
         .expected = fmt::format("a cuDNN whose parts (libcudnn_*.so.9) all have that version and "
                                 "that the driver {} can run",
                                 DriverVersion()),
         .next = "install one cuDNN 9 only, and look at the free memory in `nvidia-smi`"});
  }
  Symbol<decltype(cudnnSetStream)>(library, "cudnnSetStream")(handle_, stream);
}

CudnnHandle::~CudnnHandle() {
  if (handle_ != nullptr) {
    Symbol<decltype(cudnnDestroy)>(OpenCudnn(), "cudnnDestroy")(handle_);
  }
}

}  // namespace xp::graph::cuda
