// The checks that only look: each is a function of the system, without effects.
#pragma once

#include <functional>
#include <string>

#include "exp/doctor/finding.h"
#include "exp/doctor/system.h"
#include "exp/graph/cuda_build.h"

namespace xp::doctor {

// What the checks compare the system with.
struct Subject {
  const System& system;
  graph::CudaBuild build;
  std::string binary;  // this program; empty: not looked at
  std::string data;    // folder of the images
  std::string store;   // folder of the store, or where it would be
  std::string work;    // where checkpoints go
};

// ---- versions (driver.cpp, libcuda.cpp, cudnn.cpp, nccl.cpp, compilers.cpp, library.cpp)
Findings CheckDriver(const Subject& s);     // driver; driver.runtime
Findings CheckLibcuda(const Subject& s);    // driver.libcuda: stub, mixed versions, cuda-compat
Findings CheckGpuCode(const Subject& s);    // gpu.N.code: compute capability against code and PTX
Findings CheckCudnn(const Subject& s);      // cudnn; cudnn.parts
Findings CheckNccl(const Subject& s);       // nccl
Findings CheckCompilers(const Subject& s);  // nvcc: against the C++ compiler; nvcc.driver
Findings CheckBinary(const Subject& s);     // glibc: what this program needs of the system
// Another library or program: the finding "library" names the symbol versions and the libraries
// that the system lacks. `name`: a path, or a soname for the loader to find ("libcudnn.so.9").
Findings CheckLibrary(const System& system, const std::string& name);

// ---- health (gpu_health.cpp, kernel_log.cpp, host_health.cpp, limits.cpp, disks.cpp)
// Compute mode exclusive: a second process on the card is refused.
bool OneProcessOnly(const snapshot::Nvml::Static& about);
Findings CheckGpuHealth(const Subject& s);  // gpu.N.use, .heat, .power, .persistence, ...
Findings CheckKernelLog(const Subject& s);  // xid; kernel.memory; kernel.disk
Findings CheckCpu(const Subject& s);        // cpu.governor, .turbo, .limit, .processes
Findings CheckMemory(const Subject& s);     // memory; swap; memory.limit
Findings CheckLimits(const Subject& s);     // files, address_space, file_size, stack, ...
Findings CheckDisk(const Subject& s);       // shm; disk.store, disk.work, disk.tmp, disk.cache

// What was seen of a GPU while it worked at full load.
struct LoadSeen {
  snapshot::Nvml::Static about;
  int index = 0;
  double seconds = 0;
  std::vector<snapshot::Nvml::Sample> samples;  // first seconds included
};
Findings CheckUnderLoad(const LoadSeen& seen);  // gpu.N.load; gpu.N.pcie

// checks.cpp: all of the above but CheckLibrary and CheckUnderLoad, in the order of the table;
// `each` gets what was found as it comes.
void CheckAll(const Subject& s, const std::function<void(Finding)>& each);
Findings CheckAll(const Subject& s);

// The version of NVIDIA's kernel module; empty: none is loaded.
std::string KernelDriver(const System& system);

}  // namespace xp::doctor
