#include "exp/doctor/checks.h"

#include "src/doctor/text.h"

namespace xp::doctor {

void CheckAll(const Subject& s, const std::function<void(Finding)>& each) {
  for (auto* check :
       {CheckDriver, CheckLibcuda, CheckGpuCode, CheckCudnn, CheckNccl, CheckCompilers, CheckBinary,
        CheckGpuHealth, CheckKernelLog, CheckCpu, CheckMemory, CheckLimits, CheckDisk}) {
    for (Finding& f : check(s)) each(Shortened(std::move(f)));
  }
}

Findings CheckAll(const Subject& s) {
  Findings out;
  CheckAll(s, [&](Finding f) { out.push_back(std::move(f)); });
  return out;
}

}  // namespace xp::doctor
