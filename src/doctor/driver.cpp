// Driver, CUDA and compute capability: which version runs with which.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "src/doctor/cuda_releases.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

bool HasNvidiaCard(const System& system) {
  for (const std::string& name : system.Names("/sys/bus/pci/devices")) {
    std::string folder = "/sys/bus/pci/devices/" + name;
    std::string vendor = Trimmed(system.Text(folder + "/vendor").value_or(""));
    std::string kind = Trimmed(system.Text(folder + "/class").value_or(""));
    if (vendor == "0x10de" && kind.starts_with("0x03")) return true;
  }
  return false;
}

Finding NoDriver(const Subject& s, const Gpus& gpus, const std::string& kernel) {
  Finding f{.id = "driver", .group = "versions", .level = Level::kAbsent};
  f.needed = "an NVIDIA driver, to train on a GPU";
  f.found = "no NVIDIA driver (" + gpus.why + ")";
  if (kernel.empty() && !HasNvidiaCard(s.system)) {
    f.found += "; no NVIDIA card on the PCI bus";
    return f;
  }
  if (!kernel.empty() && !s.system.IsHere()) {
    f.level = Level::kOk;
    f.found = fmt::format("kernel module {}; {}", kernel, gpus.why);
    return f;
  }
  f.level = Level::kError;
  f.why = "there is an NVIDIA card here, and nothing can use it";
  if (gpus.why.find("the process that asks it") != std::string::npos) {
    f.found =
        fmt::format("{}{}", kernel.empty() ? "" : "kernel module " + kernel + ", but ", gpus.why);
    f.fix =
        "`nvidia-smi` does the same, and the row on Xid errors may say why: reset the card or "
        "reboot; if it comes back, install the driver again";
  } else if (kernel.empty()) {
    f.fix = "install NVIDIA's driver and load its module (modprobe nvidia)";
  } else if (gpus.why.find("mismatch") != std::string::npos) {
    f.found =
        fmt::format("kernel module {}, and a library of another version ({})", kernel, gpus.why);
    f.fix = "reboot, or reload the module: the driver was updated while it was in use";
  } else {
    f.found = fmt::format("kernel module {}, but {}", kernel, gpus.why);
    f.fix =
        "in a container: start it with the NVIDIA runtime (--gpus all); else install the "
        "driver's libraries of the same version";
  }
  return f;
}

Finding Runtime(const Subject& s, const Gpus& gpus, const std::string& driver) {
  Finding f{.id = "driver.runtime", .group = "versions"};
  const std::string& runtime = s.build.runtime;
  DriverNeed need = DriverFor(runtime);
  f.needed = fmt::format("driver {} or newer for CUDA {}", need.full, runtime);
  if (driver.empty()) {
    f.level = Level::kAbsent;
    f.found = "the driver tells no version";
    return f;
  }
  const std::string runs = gpus.cuda_driver.empty() ? "" : " (CUDA " + gpus.cuda_driver + ")";
  f.found = fmt::format("driver {}{}, this program CUDA {}", driver, runs, runtime);
  if (CompareVersions(driver, need.full) >= 0) return f;
  // libcuda of a newer driver beside an older kernel module: the cuda-compat package.
  if (!gpus.cuda_driver.empty() && CompareVersions(gpus.cuda_driver, runtime) >= 0) {
    f.found += ", forward compatibility (cuda-compat)";
    return f;
  }
  if (CompareVersions(driver, need.minor) >= 0) {
    f.found += ", minor-version compatibility";
    f.needed +=
        fmt::format("; {} or newer runs its machine code, but compiles no PTX of it", need.minor);
    return f;
  }
  f.level = Level::kError;
  f.needed += fmt::format(" ({} by minor-version compatibility)", need.minor);
  f.why = "the CUDA runtime refuses to start on a driver older than that";
  f.fix = fmt::format(
      "install driver {} or newer; on a data-centre card the package cuda-compat-{} does too; or "
      "build exp with an older CUDA toolkit",
      need.full, runtime);
  return f;
}

// Machine code runs on its own capability and on newer ones of the same major version; that of
// "100f" likewise, of "90a" on that very capability only.
bool HoldsMachineCode(const graph::CudaBuild& build, int capability) {
  return std::any_of(build.machine_code.begin(), build.machine_code.end(),
                     [&](const std::string& name) {
                       const int64_t have = LeadingInteger(name).value_or(0);
                       const bool specific = name.ends_with('a');
                       return have == capability ||
                              (!specific && have / 10 == capability / 10 && have <= capability);
                     });
}

bool HoldsPtx(const graph::CudaBuild& build, int capability) {
  return std::any_of(build.ptx.begin(), build.ptx.end(), [&](const std::string& name) {
    const int64_t have = LeadingInteger(name).value_or(0);
    return (name.ends_with('a')   ? have == capability
            : name.ends_with('f') ? have / 10 == capability / 10
                                  : true) &&
           have <= capability;
  });
}

std::string NameOf(const GpuState& gpu) {
  return gpu.about.name.empty() ? "a card that tells no name" : gpu.about.name;
}

// "NVIDIA A40 and NVIDIA H200 (8)".
std::string Counted(const std::map<std::string, int>& names) {
  std::vector<std::string> words;
  words.reserve(names.size());
  for (const auto& [name, count] : names) {
    words.push_back(count == 1 ? name : fmt::format("{} ({})", name, count));
  }
  return Listed(words);
}

Finding Code(const graph::CudaBuild& build, const GpuState& gpu, const std::string& driver_cuda) {
  const int capability = gpu.about.major * 10 + gpu.about.minor;
  Finding f{.id = fmt::format("gpu.{}.code", gpu.index), .group = "versions"};
  if (capability == 0) {
    f.level = Level::kAbsent;
    f.found = NameOf(gpu) + ": the driver doesn't tell its compute capability";
    return f;
  }
  f.found = fmt::format("{}: compute capability {}.{}; this program holds code for {}, and {}",
                        NameOf(gpu), gpu.about.major, gpu.about.minor, Listed(build.machine_code),
                        build.ptx.empty() ? "no PTX" : "PTX of " + Listed(build.ptx));
  f.needed = fmt::format("machine code of {}x up to {}", gpu.about.major, capability);
  if (HoldsMachineCode(build, capability)) return f;
  const bool compiled = HoldsPtx(build, capability);
  // A driver compiles PTX of its own CUDA and of older ones ("CUDA Compatibility", minor versions).
  const bool old_driver = !driver_cuda.empty() && CompareVersions(driver_cuda, build.runtime) < 0;
  if (compiled && old_driver) {
    f.level = Level::kError;
    f.found += fmt::format("; the driver runs CUDA {}", driver_cuda);
    f.why =
        fmt::format("only PTX would do for this card, and the driver can't compile that of CUDA {}",
                    build.runtime);
    f.fix = fmt::format("install driver {} or newer, or build with -DEXP_CUDA_ARCHITECTURES={}",
                        DriverFor(build.runtime).full, capability);
    return f;
  }
  f.level = compiled ? Level::kWarning : Level::kError;
  f.why = compiled ? "the driver compiles the PTX at the first start, which takes a minute, and "
                     "kernels tuned for the card are missing"
                   : "no kernel of this program runs on the card";
  f.fix = fmt::format("build with -DEXP_CUDA_ARCHITECTURES={}", capability);
  return f;
}

}  // namespace

std::string KernelDriver(const System& system) {
  std::string module = Trimmed(system.Text("/sys/module/nvidia/version").value_or(""));
  if (!module.empty()) return module;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  ..."; the open one says "NVIDIA
  // UNIX Open Kernel Module for x86_64  580.159.03".
  if (auto text = system.Text("/proc/driver/nvidia/version")) {
    for (const std::string& word : Words(*text)) {
      if (word.find('.') != std::string::npos &&
          word.find_first_not_of("0123456789.") == std::string::npos) {
        return word;
      }
    }
  }
  return "";
}

Findings CheckDriver(const Subject& s) {
  Gpus gpus = s.system.QueryGpus();
  std::string kernel = KernelDriver(s.system);
  if (!gpus.loaded) return {NoDriver(s, gpus, kernel)};
  std::string driver = kernel.empty() ? gpus.driver : kernel;
  std::map<std::string, int> names;
  std::vector<std::string> lost;
  for (const GpuState& gpu : gpus.devices) {
    const std::string& problem = gpu.about.problem;
    ++names[problem.empty() ? NameOf(gpu) : "a card that doesn't answer"];
    if (!problem.empty()) lost.push_back(fmt::format("card {}: {}", gpu.index, problem));
  }
  Finding f{.id = "driver", .group = "versions"};
  f.found = fmt::format("{}{}; {}", driver.empty() ? "a driver that tells no version" : driver,
                        gpus.cuda_driver.empty() ? "" : ", runs CUDA " + gpus.cuda_driver,
                        names.empty() ? "no GPU" : Counted(names));
  if (!kernel.empty() && !gpus.driver.empty() && kernel != gpus.driver) {
    f.level = Level::kError;
    f.found = fmt::format("kernel module {}, libraries {}", kernel, gpus.driver);
    f.needed = "the same version of both";
    f.why = "CUDA doesn't start while they differ";
    f.fix = "reboot, or reload the module: the driver was updated while it was in use";
  } else if (gpus.devices.empty()) {
    f.level = Level::kWarning;
    f.needed = "a GPU that this process may use";
    f.why = "nothing can be trained on a GPU";
    f.fix = gpus.hidden == 0 ? "`nvidia-smi -L` lists the cards; look for one that fell off the bus"
                             : fmt::format("CUDA_VISIBLE_DEVICES (`{}`) hides {}: unset it",
                                           s.system.Variable("CUDA_VISIBLE_DEVICES"), gpus.hidden);
  } else if (!lost.empty()) {
    f.level = Level::kError;
    f.found += "; " + Listed(lost);
    f.needed = "cards that answer";
    f.why = "a training that uses it fails, and others may hang";
    f.fix =
        "`nvidia-smi` and the row on Xid errors have more; a card that fell off the bus comes "
        "back with a reboot, one of another container or user isn't for this process: leave it "
        "out by CUDA_VISIBLE_DEVICES";
  }
  Findings out{f};
  if (s.build.compiled_in) {
    out.push_back(Runtime(s, gpus, driver));
  } else {
    out.push_back({.id = "driver.runtime",
                   .group = "versions",
                   .level = gpus.devices.empty() ? Level::kAbsent : Level::kWarning,
                   .found = "this exp was built without the CUDA backend",
                   .needed = "a build with CUDA, to use the GPU",
                   .why = "training runs on the CPU",
                   .fix = "install the CUDA toolkit, cuDNN and build again (docs/cuda.md)"});
  }
  return out;
}

Findings CheckGpuCode(const Subject& s) {
  if (!s.build.compiled_in) return {};
  Findings out;
  const Gpus gpus = s.system.QueryGpus();
  for (const GpuState& gpu : gpus.devices) {
    if (gpu.about.problem.empty()) out.push_back(Code(s.build, gpu, gpus.cuda_driver));
  }
  return out;
}

}  // namespace xp::doctor
