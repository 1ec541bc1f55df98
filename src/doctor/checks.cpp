#include "exp/doctor/checks.h"

#include "src/doctor/text.h"

namespace xp::doctor {

Findings CheckAll(const Subject& s) {
  Findings out;
  for (auto* check :
       {CheckDriver, CheckLibcuda, CheckGpuCode, CheckCudnn, CheckNccl, CheckCompilers, CheckBinary,
        CheckGpuHealth, CheckKernelLog, CheckCpu, CheckMemory, CheckLimits, CheckDisk}) {
    for (Finding& f : check(s)) out.push_back(Shortened(std::move(f)));
  }
  return out;
}

}  // namespace xp::doctor
