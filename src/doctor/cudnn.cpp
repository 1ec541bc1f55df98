// cuDNN: its version, that of its CUDA, and its parts.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "exp/doctor/elf.h"
#include "src/doctor/cuda_releases.h"
#include "src/doctor/find_library.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kCudnn = "libcudnn.so.9";
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

// In the order in which the CUDA backend looks (docs/cuda.md).
std::string FindCudnn(const System& system) {
  std::string named = system.Variable("EXP_CUDNN");
  if (!named.empty()) return named;
  std::string path = FindOwnLibrary(system, kCudnn);
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
    std::string found = FindOwnLibrary(system, soname);
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
               system.Ask(path, part.check, LibraryCall::kSize).value_or(0) % (1LL << 32) != 0) {
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

constexpr const char* kWhy = "convolutions on a GPU are cuDNN's";

Finding NotFound(const Subject& s, const Gpus& gpus, Finding f) {
  f.level = gpus.devices.empty() ? Level::kAbsent : Level::kError;
  f.found = fmt::format("{} isn't found", kCudnn);
  f.why = kWhy;
  f.fix = "install cuDNN 9 for CUDA " + MajorOf(s.build.runtime) +
          ", or point LD_LIBRARY_PATH at its folder or EXP_CUDNN at the file";
  return f;
}

Finding DoesNotLoad(const std::string& path, const Gpus& gpus, Finding f) {
  f.level = gpus.devices.empty() ? Level::kWarning : Level::kError;
  f.found = path + " doesn't load, lacks libcudnn_graph.so.9, or isn't cuDNN";
  f.why = kWhy;
  f.fix = "`exp doctor --library " + path +
          "` says what it misses; all libcudnn_*.so.9 of one version belong beside it";
  return f;
}

}  // namespace

Findings CheckCudnn(const Subject& s) {
  if (!s.build.compiled_in) return {};
  Gpus gpus = s.system.QueryGpus();
  Finding f{.id = "cudnn", .group = "versions"};
  f.needed = "cuDNN 9, any minor version";
  std::string path = FindCudnn(s.system);
  if (path.empty()) return {NotFound(s, gpus, std::move(f))};
  if (!s.system.IsHere()) {
    f.level = Level::kAbsent;
    f.found = fmt::format("{}; {}", path, gpus.why);
    return {f};
  }
  auto number = s.system.Ask(path, "cudnnGetVersion", LibraryCall::kSize);
  if (!number) return {DoesNotLoad(path, gpus, std::move(f))};
  std::string version = CudnnVersionText(*number);
  auto built = s.system.Ask(path, "cudnnGetCudartVersion", LibraryCall::kSize).value_or(0);
  std::string cuda = built > 0 ? CudaVersionText(built) : "";
  f.found = fmt::format("{}{} ({})", version, cuda.empty() ? "" : " for CUDA " + cuda, path);
  if (LeadingInteger(version).value_or(0) != 9) {
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

}  // namespace xp::doctor
