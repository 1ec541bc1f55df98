// cuDNN, NCCL and the compilers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "exp/doctor/checks.h"
#include "exp/doctor/elf.h"
#include "src/doctor/find_library.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kCudnn = "libcudnn.so.9";
constexpr const char* kNccl = "libnccl.so.2";
// cuDNN 9's parts, and the function by which the front library compares a part's version with its
// own (cudnn_ops.h and its sisters); null where a part has none.
struct Part {
  std::string name;
  const char* check;
  bool optional;  // only operations that exp doesn't use need it, or not every version has it
};
const Part kParts[] = {{"graph", "cudnnGraphVersionCheck", false},
                       {"ops", "cudnnOpsVersionCheck", false},
                       {"cnn", "cudnnCnnVersionCheck", false},
                       {"adv", "cudnnAdvVersionCheck", true},
                       {"engines_precompiled", nullptr, false},
                       {"engines_runtime_compiled", nullptr, false},
                       {"heuristic", nullptr, false}};

std::string SonameOf(const std::string& part) { return fmt::format("libcudnn_{}.so.9", part); }

// Newer minor versions have more parts, which load as the ones above do.
std::vector<Part> PartsWith(const std::vector<std::string>& files) {
  std::vector<Part> parts(std::begin(kParts), std::end(kParts));
  auto known = [&](const std::string& file) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return SonameOf(part.name) == file; });
  };
  constexpr std::string_view kBefore = "libcudnn_", kAfter = ".so.9";
  for (const std::string& file : files) {
    if (!file.starts_with(kBefore) || !file.ends_with(kAfter) || known(file)) continue;
    size_t length = file.size() - kBefore.size() - kAfter.size();
    parts.push_back({file.substr(kBefore.size(), length), nullptr, true});
  }
  return parts;
}

std::string CudnnText(int64_t v) {
  int64_t unit = v >= 90000 ? 10000 : 1000;  // before 9, 8902 was 8.9.2
  return fmt::format("{}.{}.{}", v / unit, v % unit / 100, v % 100);
}

// In the order in which the CUDA backend looks (docs/cuda.md).
std::string FindCudnn(const System& system) {
  std::string named = system.Variable("EXP_CUDNN");
  if (!named.empty()) return named;
  std::string path = FindLibrary(system, kCudnn);
  if (!path.empty()) return path;
  for (const char* folder :
       {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/lib/x86_64-linux-gnu/"}) {
    std::string usual = fmt::format("{}{}", folder, kCudnn);
    if (system.Exists(usual)) return usual;
  }
  return "";
}

std::string Folder(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// "9.1.0" of libcudnn_ops.so.9.1.0; empty for libcudnn_ops.so.9, as Python wheels name it.
std::string VersionInName(const std::string& path) {
  size_t so = path.rfind(".so.");
  std::string version = so == std::string::npos ? "" : path.substr(so + 4);
  return std::count(version.begin(), version.end(), '.') >= 2 ? version : "";
}

// A part's own constant, such as cudnn_ops_infer_version = 0x091300 for 9.19.0.
std::string VersionInside(const System& system, const std::string& path) {
  auto bytes = system.Bytes(path);
  auto elf = bytes ? ParseElf(bytes->bytes, nullptr) : std::nullopt;
  if (!elf) return "";
  for (const auto& [name, value] : elf->constants) {
    bool version = name.starts_with("cudnn_") && name.ends_with("_version");
    if (!version || value >> 24 != 0 || value < 0x010000) continue;
    return fmt::format("{}.{}.{}", value >> 16 & 0xff, value >> 8 & 0xff, value & 0xff);
  }
  return "";
}

Finding Parts(const System& system, const std::string& path, const std::string& version) {
  Finding f{.id = "cudnn.parts", .group = "versions"};
  f.needed = fmt::format("all parts of cuDNN {}, from {}", version, Folder(path));
  std::vector<std::string> wrong, missing;
  int seen = 0;
  std::string real_folder = Folder(system.RealPath(path));
  for (const Part& part : PartsWith(system.Names(real_folder))) {
    std::string soname = SonameOf(part.name);
    // The front library's own folder is on its run path ($ORIGIN), after LD_LIBRARY_PATH's.
    std::string found = FindLibrary(system, soname);
    std::string beside = fmt::format("{}/{}", Folder(path), soname);
    if (found.empty() && system.Exists(beside)) found = beside;
    beside = fmt::format("{}/{}", real_folder, soname);
    if (found.empty() && system.Exists(beside)) found = beside;
    if (found.empty()) {
      if (!part.optional) missing.push_back(soname);
      continue;
    }
    ++seen;
    std::string real = system.RealPath(found);
    std::string its = VersionInside(system, real);
    if (its.empty()) its = VersionInName(real);
    if (!its.empty() && CompareVersions(its, version) != 0) {
      wrong.push_back(fmt::format("{} is {} ({})", soname, its, found));
    } else if (part.check != nullptr &&
               system.Ask(path, part.check, System::Call::kSize).value_or(0) % (1LL << 32) != 0) {
      wrong.push_back(fmt::format("{} says that its version differs", soname));
    } else if (its.empty() && Folder(real) != real_folder) {
      wrong.push_back(fmt::format("{} comes from {}", soname, Folder(found)));
    }
  }
  f.found = fmt::format("{} parts of {}", seen, version);
  if (wrong.empty() && missing.empty()) return f;
  f.level = Level::kError;
  f.found = Listed(wrong);
  if (!missing.empty()) f.found += (wrong.empty() ? "" : "; ") + Listed(missing) + " missing";
  f.why = "cuDNN refuses to start, or fails in the middle of a model, when its parts differ";
  f.fix =
      "keep one cuDNN: take the other one's folder out of LD_LIBRARY_PATH and /etc/ld.so.conf, "
      "or reinstall it";
  return f;
}

// "13.3" of the text "NCCL version 2.30.7+cuda13.3", which the library holds as a constant; empty
// where it doesn't.
std::string CudaOfNccl(const System& system) {
  constexpr std::string_view kName = "NCCL version ", kCuda = "+cuda";
  constexpr size_t kConstants = size_t{64} << 20;  // they lie before hundreds of MiB of GPU code
  std::string path = FindLibrary(system, kNccl);
  auto bytes = path.empty() ? std::nullopt : system.Bytes(path);
  if (!bytes) return "";
  std::string_view text(bytes->bytes.data(), std::min(bytes->bytes.size(), kConstants));
  for (size_t at = 0; (at = text.find(kName, at)) != text.npos; ++at) {
    size_t end = text.find_first_not_of("0123456789.", at + kName.size());
    if (end == text.npos || !text.substr(end).starts_with(kCuda)) continue;
    return VersionAfter(std::string(text.substr(end, kCuda.size() + 16)), std::string(kCuda));
  }
  return "";
}

std::string MajorOf(const std::string& version) { return version.substr(0, version.find('.')); }

bool NewerMajor(const std::string& cuda, const std::string& driver_cuda) {
  return !cuda.empty() && !driver_cuda.empty() &&
         CompareVersions(MajorOf(cuda), MajorOf(driver_cuda)) > 0;
}

Findings CompilerPair(const Subject& s, const std::string& nvcc, const std::string& driver_cuda) {
  // The newest GCC that a toolkit takes as host compiler: "Installation Guide for Linux", table of
  // host compilers, which crt/host_config.h enforces.
  struct Limit {
    const char* cuda;
    int gcc;
  };
  static constexpr Limit kLimits[] = {{"13.0", 15}, {"12.8", 14}, {"12.4", 13}, {"12.0", 12},
                                      {"11.5", 11}, {"11.1", 10}, {"11.0", 9},  {"10.1", 8}};
  Finding f{.id = "nvcc", .group = "versions"};
  std::string gcc = Trimmed(s.system.Output({"g++", "-dumpfullversion"}));
  f.found = fmt::format("nvcc {}, g++ {}", nvcc, gcc.empty() ? "absent" : gcc);
  int newest = 0;
  for (const Limit& limit : kLimits) {
    if (CompareVersions(nvcc, limit.cuda) < 0) continue;
    newest = limit.gcc;
    break;
  }
  if (newest > 0) f.needed = fmt::format("g++ {} or older for CUDA {}", newest, nvcc);
  if (newest > 0 && !gcc.empty() && Number(gcc).value_or(0) > newest) {
    f.level = Level::kWarning;
    f.why = "nvcc refuses host compilers that it doesn't know, so the CUDA backend can't be built";
    f.fix = fmt::format("install g++-{} and build with -DCMAKE_CUDA_HOST_COMPILER=g++-{}", newest,
                        newest);
  }
  Findings out{f};
  if (NewerMajor(nvcc, driver_cuda)) {
    out.push_back({.id = "nvcc.driver",
                   .group = "versions",
                   .level = Level::kWarning,
                   .found = fmt::format("nvcc {}, the driver runs CUDA {}", nvcc, driver_cuda),
                   .needed = "a toolkit of the driver's major version or older",
                   .why = "what is built with it won't start with this driver",
                   .fix = "update the driver to " + DriverFor(nvcc).full +
                          ", or build with an "
                          "older toolkit"});
  }
  return out;
}

}  // namespace

Findings CheckCudnn(const Subject& s) {
  if (!s.build.compiled_in) return {};
  Gpus gpus = s.system.QueryGpus();
  Finding f{.id = "cudnn", .group = "versions"};
  f.needed = "cuDNN 9, any minor version";
  std::string path = FindCudnn(s.system);
  if (path.empty()) {
    f.level = gpus.devices.empty() ? Level::kAbsent : Level::kError;
    f.found = "libcudnn.so.9 isn't found";
    f.why = "convolutions on a GPU are cuDNN's";
    f.fix = "install cuDNN 9 for CUDA " + MajorOf(s.build.runtime) +
            ", or point LD_LIBRARY_PATH at its folder or EXP_CUDNN at the file";
    return {f};
  }
  auto number = s.system.Ask(path, "cudnnGetVersion", System::Call::kSize);
  if (!number) {
    f.level = gpus.devices.empty() ? Level::kWarning : Level::kError;
    f.found = path + " doesn't load, or isn't cuDNN";
    f.why = "convolutions on a GPU are cuDNN's";
    f.fix = "`exp doctor --library " + path + "` says what it misses";
    return {f};
  }
  std::string version = CudnnText(*number);
  auto built = s.system.Ask(path, "cudnnGetCudartVersion", System::Call::kSize).value_or(0);
  std::string cuda = built > 0 ? fmt::format("{}.{}", built / 1000, built % 1000 / 10) : "";
  f.found = fmt::format("{}{} ({})", version, cuda.empty() ? "" : " for CUDA " + cuda, path);
  if (Number(version).value_or(0) != 9) {
    f.level = Level::kError;
    f.why = "exp is built for cuDNN 9";
    f.fix = "install cuDNN 9 and point LD_LIBRARY_PATH or EXP_CUDNN at it";
    return {f};
  }
  if (NewerMajor(cuda, gpus.cuda_driver)) {
    const std::string driver_major = MajorOf(gpus.cuda_driver);
    f.level = Level::kError;
    f.needed += fmt::format(", for CUDA {} or older", driver_major);
    f.why = "the driver can't run the CUDA that this cuDNN was built for";
    f.fix = fmt::format("install the cuDNN 9 package for CUDA {}, or a driver {} or newer",
                        driver_major, DriverFor(cuda).full);
  }
  return {f, Parts(s.system, path, version)};
}

Findings CheckNccl(const Subject& s) {
  Gpus gpus = s.system.QueryGpus();
  auto version = s.system.Ask(kNccl, "ncclGetVersion", System::Call::kInt);
  Finding f{.id = "nccl", .group = "versions", .level = Level::kAbsent};
  f.needed = "NCCL 2, to train on several GPUs";
  f.found = "libnccl.so.2 isn't found";
  if (version) {
    f.level = Level::kOk;
    f.found = fmt::format("{}.{}.{}", *version / 10000, *version % 10000 / 100, *version % 100);
    const std::string cuda = CudaOfNccl(s.system);
    if (!cuda.empty()) f.found += " for CUDA " + cuda;
    if (!gpus.devices.empty() && NewerMajor(cuda, gpus.cuda_driver)) {
      f.level = Level::kWarning;
      f.needed += fmt::format(", for CUDA {} or older", MajorOf(gpus.cuda_driver));
      f.why = "the driver can't run the CUDA that it was built for: several GPUs won't train";
      f.fix = fmt::format("install the NCCL package for CUDA {}, or a driver {} or newer",
                          MajorOf(gpus.cuda_driver), DriverFor(cuda).full);
    }
  } else if (gpus.devices.size() > 1) {
    f.level = Level::kWarning;
    f.why = fmt::format("there are {} GPUs; together they need it", gpus.devices.size());
    f.fix = "install libnccl2, or point LD_LIBRARY_PATH at its folder";
  }
  return {f};
}

Findings CheckCompilers(const Subject& s) {
  std::string text;
  for (const char* program : {"nvcc", "/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"}) {
    text = s.system.Output({program, "--version"});
    if (!text.empty()) break;
  }
  std::string nvcc = VersionAfter(text, "release ");
  std::string full = VersionAfter(text, ", V");
  if (nvcc.empty()) {
    return {{.id = "nvcc",
             .group = "versions",
             .level = Level::kAbsent,
             .found = "nvcc isn't found",
             .needed = "only to build the CUDA backend"}};
  }
  return CompilerPair(s, full.empty() ? nvcc : full, s.system.QueryGpus().cuda_driver);
}

}  // namespace xp::doctor
