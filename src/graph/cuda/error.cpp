#include <fmt/format.h>

#include "exp/base/error.h"
#include "src/graph/cuda/check.h"

namespace xp::graph::cuda {
namespace {

// After these nothing works in this process any more: the context is corrupted or the card is gone.
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::string NextStep(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return "look at `nvidia-smi` and the kernel log (dmesg, lines with Xid): the card may need a "
             "reset or be defective; then resume from the last checkpoint with --resume auto";
    case cudaErrorMemoryAllocation:
      return "lower data.samples_per_gpu, or end the other programs that `nvidia-smi` shows";
    case cudaErrorLaunchTimeout:
      return "the card drives a display with a time limit for kernels: use another one";
    default:
      return "a fault in a kernel of this program: run again under compute-sanitizer and report it";
  }
}

}  // namespace

void ThrowCudaError(cudaError_t error, const std::string& doing) {
  cudaGetLastError();  // clears an error that isn't sticky
  std::string what = IsSticky(error)
                         ? fmt::format("the GPU was lost while {}: {} ({})", doing,
                                       cudaGetErrorString(error), cudaGetErrorName(error))
                         : fmt::format("the GPU failed while {}: {} ({})", doing,
                                       cudaGetErrorString(error), cudaGetErrorName(error));
  throw JobError({.what = what, .where = "cuda", .next = NextStep(error)});
}

}  // namespace xp::graph::cuda
