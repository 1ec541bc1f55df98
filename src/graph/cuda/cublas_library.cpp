#include "src/graph/cuda/cublas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "exp/base/error.h"

namespace xp::graph::cuda {
namespace {

// From cublas_api.h and library_types.h.
enum Operation : int { kNormal = 0, kTransposed = 1 };
enum DataType : int { kReal32 = 0, kReal16 = 2, kBrain16 = 14 };
enum Compute : int { kCompute32 = 68, kComputeTf32 = 77 };
constexpr int kDefaultAlgorithm = -1;

struct Library {
  void* handle = nullptr;
  std::string why;
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, cudaStream_t) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
};

template <typename F>
bool Symbol(Library* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library->handle, name));
  if (*function == nullptr) library->why = std::string("cuBLAS lacks the function ") + name;
  return *function != nullptr;
}

Library Load() {
  std::vector<std::string> names;
  if (const char* named = std::getenv("EXP_CUBLAS"); named != nullptr && *named != '\0') {
    names = {named};
  } else {
    for (const char* version : {"13", "12"}) {
      for (const char* folder :
           {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/lib/x86_64-linux-gnu/"}) {
        names.push_back(std::string(folder) + "libcublas.so." + version);
      }
    }
  }
  Library library;
  for (const std::string& name : names) {
    library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) break;
    if (const char* reason = dlerror(); library.why.empty() && reason != nullptr) {
      library.why = reason;
    }
  }
  if (library.handle == nullptr) return library;
  library.why.clear();
  const bool all = Symbol(&library, "cublasCreate_v2", &library.create) &&
                   Symbol(&library, "cublasDestroy_v2", &library.destroy) &&
                   Symbol(&library, "cublasSetStream_v2", &library.set_stream) &&
                   Symbol(&library, "cublasSetWorkspace_v2", &library.set_workspace) &&
                   Symbol(&library, "cublasGemmEx", &library.gemm);
  if (!all) library.handle = nullptr;
  return library;
}

const Library& Open() {
  static const Library library = Load();
  return library;
}

void Check(int status, const char* what) {
  if (status == 0) return;
  throw JobError({.what = fmt::format("cuBLAS failed, status {}: {}", status, what),
                  .where = "cuda",
                  .next = "set EXP_FUSION_OFF=gram to do without it"});
}

}  // namespace

bool CublasAvailable(std::string* why) {
  *why = Open().why;
  return Open().handle != nullptr;
}

Cublas::Cublas(cudaStream_t stream) {
  const Library& library = Open();
  if (library.handle == nullptr) {
    throw UsageError({.what = "cuBLAS can't be loaded: " + library.why,
                      .where = "--device cuda",
                      .expected = "libcublas.so.12 or .13, of the CUDA that cuDNN is for",
                      .next = "set EXP_FUSION_OFF=gram, or point EXP_CUBLAS at the file"});
  }
  Check(library.create(&handle_), "starting");
  Check(library.set_stream(handle_, stream), "taking a stream");
}

Cublas::~Cublas() {
  if (handle_ != nullptr) Open().destroy(handle_);
}

// cuBLAS speaks of columns: a row-major matrix is its transpose to it.
void Cublas::Run(bool transpose_y, int m, int n, int64_t k, const void* x, int ldx, const void* y,
                 int ldy, int type, int compute, float* out, void* workspace) {
  const Library& library = Open();
  // The workspace decides which kernels can be chosen; and its own mustn't be made while capturing.
  Check(library.set_workspace(handle_, workspace, kWorkspaceBytes), "taking a workspace");
  const float one = 1, zero = 0;
  Check(library.gemm(handle_, kNormal, transpose_y ? kTransposed : kNormal, m, n,
                     static_cast<int>(k), &one, x, type, ldx, y, type, ldy, &zero, out, kReal32, m,
                     compute, kDefaultAlgorithm),
        "a product");
}

void Cublas::TransposedProduct(const void* x, int m, const void* y, int n, int64_t rows, DType type,
                               bool tf32, float* out, void* workspace) {
  const int data = type == DType::kBF16 ? kBrain16 : type == DType::kF16 ? kReal16 : kReal32;
  const int compute = type == DType::kF32 && tf32 ? kComputeTf32 : kCompute32;
  Run(true, n, m, rows, y, n, x, m, data, compute, out, workspace);
}

void Cublas::Product(const float* x, const float* y, int m, int n, int k, float* out,
                     void* workspace) {
  Run(false, n, m, k, y, n, x, k, kReal32, kCompute32, out, workspace);
}

}  // namespace xp::graph::cuda
