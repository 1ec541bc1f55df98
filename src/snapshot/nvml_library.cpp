#include "src/snapshot/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "exp/base/library_version.h"

namespace xp::snapshot {
namespace {

using Device = void*;
using Unsigned = unsigned int;

// Layouts and numbers of nvml.h, which are a stable ABI.
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  Unsigned gpu, memory;
};
constexpr Unsigned kClockSm = 1, kClockMemory = 2;  // nvmlClockType_t
constexpr Unsigned kTemperatureGpu = 0;             // nvmlTemperatureSensors_t
constexpr Unsigned kThresholdSlowdown = 1;          // nvmlTemperatureThresholds_t
constexpr int kGpuIsLost = 15;                      // nvmlReturn_t

}  // namespace

struct NvmlLibrary::Api {
  void* library = nullptr;
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  int (*DriverVersion)(char*, Unsigned) = nullptr;
  int (*CudaVersion)(int*) = nullptr;
  int (*Count)(Unsigned*) = nullptr;
  int (*Handle)(Unsigned, Device*) = nullptr;
  int (*Name)(Device, char*, Unsigned) = nullptr;
  int (*Uuid)(Device, char*, Unsigned) = nullptr;
  int (*Memory)(Device, MemoryInfo*) = nullptr;
  int (*Capability)(Device, int*, int*) = nullptr;
  int (*Persistence)(Device, int*) = nullptr;
  int (*Ecc)(Device, int*, int*) = nullptr;
  int (*Mig)(Device, Unsigned*, Unsigned*) = nullptr;
  int (*MostInstances)(Device, Unsigned*) = nullptr;
  int (*Instance)(Device, Unsigned, Device*) = nullptr;
  int (*ComputeMode)(Device, int*) = nullptr;
  int (*PowerLimit)(Device, Unsigned*) = nullptr;
  int (*PowerDefault)(Device, Unsigned*) = nullptr;
  int (*PowerRange)(Device, Unsigned*, Unsigned*) = nullptr;
  int (*MaxClock)(Device, Unsigned, Unsigned*) = nullptr;
  int (*PcieGeneration)(Device, Unsigned*) = nullptr;
  int (*PcieWidth)(Device, Unsigned*) = nullptr;
  int (*Threshold)(Device, Unsigned, Unsigned*) = nullptr;
  int (*Temperature)(Device, Unsigned, Unsigned*) = nullptr;
  int (*Power)(Device, Unsigned*) = nullptr;
  int (*Clock)(Device, Unsigned, Unsigned*) = nullptr;
  int (*Utilization)(Device, struct xp::snapshot::Utilization*) = nullptr;
  int (*Throttle)(Device, unsigned long long*) = nullptr;
  int (*PcieGenerationNow)(Device, Unsigned*) = nullptr;
  int (*PcieWidthNow)(Device, Unsigned*) = nullptr;
  int (*EccErrors)(Device, int, int, unsigned long long*) = nullptr;
  int (*RetiredPages)(Device, int, Unsigned*, unsigned long long*) = nullptr;
  int (*RetirementPending)(Device, int*) = nullptr;
  int (*RemappedRows)(Device, Unsigned*, Unsigned*, Unsigned*, Unsigned*) = nullptr;
  int (*HandleByUuid)(const char*, Device*) = nullptr;
  int (*HandleByPlace)(const char*, Device*) = nullptr;
  int (*CardOfMig)(Device, Device*) = nullptr;
  int (*Index)(Device, Unsigned*) = nullptr;
  const char* (*ErrorText)(int) = nullptr;

  template <class F>
  void Find(F& f, const char* name) {
    f = reinterpret_cast<F>(::dlsym(library, name));
  }
  void FindAll();
  // MIG instances of a card, which have no numbers without gaps.
  int CountInstances(Device card) const {
    constexpr Unsigned kMost = 64;  // today's cards have 7
    Unsigned most = 0;
    if (!MostInstances || !Instance || MostInstances(card, &most) != 0) return 0;
    int count = 0;
    for (Unsigned i = 0; i < std::min(most, kMost); ++i) {
      Device instance = nullptr;
      count += Instance(card, i, &instance) == 0 ? 1 : 0;
    }
    return count;
  }
  std::string Text(int status) const {
    const char* text = ErrorText ? ErrorText(status) : nullptr;
    return text ? text : fmt::format("NVML's status {}", status);
  }
  std::optional<Device> Get(int index, std::string* why = nullptr) const {
    Device device = nullptr;
    const int status = Handle ? Handle(static_cast<Unsigned>(index), &device) : -1;
    if (status == 0) return device;
    if (why) *why = Handle ? Text(status) : "this NVML has no nvmlDeviceGetHandleByIndex_v2";
    return std::nullopt;
  }
};

void NvmlLibrary::Api::FindAll() {
  Find(Init, "nvmlInit_v2");
  Find(Shutdown, "nvmlShutdown");
  Find(DriverVersion, "nvmlSystemGetDriverVersion");
  Find(CudaVersion, "nvmlSystemGetCudaDriverVersion_v2");
  if (!CudaVersion) Find(CudaVersion, "nvmlSystemGetCudaDriverVersion");  // before driver 418
  Find(Count, "nvmlDeviceGetCount_v2");
  Find(Handle, "nvmlDeviceGetHandleByIndex_v2");
  Find(Name, "nvmlDeviceGetName");
  Find(Uuid, "nvmlDeviceGetUUID");
  Find(Memory, "nvmlDeviceGetMemoryInfo");
  Find(Capability, "nvmlDeviceGetCudaComputeCapability");
  Find(Persistence, "nvmlDeviceGetPersistenceMode");
  Find(Ecc, "nvmlDeviceGetEccMode");
  Find(Mig, "nvmlDeviceGetMigMode");
  Find(MostInstances, "nvmlDeviceGetMaxMigDeviceCount");
  Find(Instance, "nvmlDeviceGetMigDeviceHandleByIndex");
  Find(ComputeMode, "nvmlDeviceGetComputeMode");
  Find(PowerLimit, "nvmlDeviceGetEnforcedPowerLimit");
  Find(PowerDefault, "nvmlDeviceGetPowerManagementDefaultLimit");
  Find(PowerRange, "nvmlDeviceGetPowerManagementLimitConstraints");
  Find(MaxClock, "nvmlDeviceGetMaxClockInfo");
  Find(PcieGeneration, "nvmlDeviceGetMaxPcieLinkGeneration");
  Find(PcieWidth, "nvmlDeviceGetMaxPcieLinkWidth");
  Find(Threshold, "nvmlDeviceGetTemperatureThreshold");
  Find(Temperature, "nvmlDeviceGetTemperature");
  Find(Power, "nvmlDeviceGetPowerUsage");
  Find(Clock, "nvmlDeviceGetClockInfo");
  Find(Utilization, "nvmlDeviceGetUtilizationRates");
  Find(Throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!Throttle) Find(Throttle, "nvmlDeviceGetCurrentClocksEventReasons");  // its newer name
  Find(PcieGenerationNow, "nvmlDeviceGetCurrPcieLinkGeneration");
  Find(PcieWidthNow, "nvmlDeviceGetCurrPcieLinkWidth");
  Find(EccErrors, "nvmlDeviceGetTotalEccErrors");
  Find(RetiredPages, "nvmlDeviceGetRetiredPages");
  Find(RetirementPending, "nvmlDeviceGetRetiredPagesPendingStatus");
  Find(RemappedRows, "nvmlDeviceGetRemappedRows");
  Find(HandleByUuid, "nvmlDeviceGetHandleByUUID");
  Find(HandleByPlace, "nvmlDeviceGetHandleByPciBusId_v2");
  Find(CardOfMig, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
  Find(Index, "nvmlDeviceGetIndex");
  Find(ErrorText, "nvmlErrorString");
}

std::unique_ptr<NvmlLibrary> NvmlLibrary::Load(std::string* why) {
  const char* named = std::getenv("EXP_NVML");
  void* library = ::dlopen(named && *named ? named : "libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    if (why) *why = reason ? reason : "libnvidia-ml.so.1 isn't there";
    return nullptr;
  }
  std::unique_ptr<NvmlLibrary> nvml(new NvmlLibrary);
  nvml->api_ = std::make_unique<Api>();
  nvml->api_->library = library;
  nvml->api_->FindAll();
  int status = nvml->api_->Init ? nvml->api_->Init() : -1;
  if (status != 0) {
    if (why) *why = nvml->api_->Init ? nvml->api_->Text(status) : "this NVML has no nvmlInit_v2";
    nvml->api_->Shutdown = nullptr;  // it never began
    return nullptr;
  }
  return nvml;
}

NvmlLibrary::~NvmlLibrary() {
  if (!api_) return;
  if (api_->Shutdown) api_->Shutdown();
  ::dlclose(api_->library);
}

std::string NvmlLibrary::driver() const {
  char text[96] = "";
  return api_->DriverVersion && api_->DriverVersion(text, sizeof(text)) == 0 ? text : "";
}

std::string NvmlLibrary::cuda_driver() const {
  int version = 0;
  const bool told = api_->CudaVersion && api_->CudaVersion(&version) == 0 && version > 0;
  if (!told) return "";
  return CudaVersionText(version);
}

int NvmlLibrary::count() const {
  constexpr Unsigned kMost = 1024;  // no host has more, and each is asked for
  Unsigned n = 0;
  return api_->Count && api_->Count(&n) == 0 ? static_cast<int>(std::min(n, kMost)) : 0;
}

std::optional<int> NvmlLibrary::CardOfMig(const std::string& uuid) const {
  Device instance = nullptr, card = nullptr;
  const bool found = api_->HandleByUuid && api_->CardOfMig &&
                     api_->HandleByUuid(uuid.c_str(), &instance) == 0 &&
                     api_->CardOfMig(instance, &card) == 0;
  return found ? IndexOf(card) : std::nullopt;
}

std::optional<int> NvmlLibrary::CardAt(const std::string& pci_bus_id) const {
  Device card = nullptr;
  const bool found = api_->HandleByPlace && api_->HandleByPlace(pci_bus_id.c_str(), &card) == 0;
  return found ? IndexOf(card) : std::nullopt;
}

std::optional<int> NvmlLibrary::IndexOf(void* card) const {
  Unsigned index = 0;
  const bool told = api_->Index && api_->Index(card, &index) == 0;
  return told && index < static_cast<Unsigned>(count()) ? std::optional(static_cast<int>(index))
                                                        : std::nullopt;
}

Nvml::Static NvmlLibrary::Describe(int index) const {
  Nvml::Static out;
  std::optional<Device> device = api_->Get(index, &out.problem);
  if (!device) return out;
  char text[96] = "";
  if (api_->Name) {
    const int status = api_->Name(*device, text, sizeof(text));
    if (status == 0) out.name = text;
    if (status == kGpuIsLost) out.problem = api_->Text(status);
  }
  if (api_->Uuid && api_->Uuid(*device, text, sizeof(text)) == 0) out.uuid = text;
  if (api_->Capability) api_->Capability(*device, &out.major, &out.minor);
  MemoryInfo memory{};
  if (api_->Memory && api_->Memory(*device, &memory) == 0) {
    out.memory_bytes = static_cast<int64_t>(memory.total);
  }
  int flag = 0, pending = 0;
  if (api_->Persistence && api_->Persistence(*device, &flag) == 0) out.persistence = flag != 0;
  if (api_->Ecc && api_->Ecc(*device, &flag, &pending) == 0) out.ecc = flag != 0;
  Unsigned a = 0, b = 0;
  auto number = [&](std::optional<int>& target, int rc) {
    if (rc == 0 && a <= INT_MAX) target = static_cast<int>(a);  // above: NVML_VALUE_NOT_AVAILABLE
  };
  if (api_->Mig && api_->Mig(*device, &a, &b) == 0) out.mig = a != 0;
  if (out.mig.value_or(false)) out.mig_instances = api_->CountInstances(*device);
  if (api_->ComputeMode && api_->ComputeMode(*device, &flag) == 0) out.compute_mode = flag;
  if (api_->PowerDefault) number(out.power_limit_default_mw, api_->PowerDefault(*device, &a));
  if (api_->PowerLimit) number(out.power_limit_mw, api_->PowerLimit(*device, &a));
  if (api_->PowerRange && api_->PowerRange(*device, &b, &a) == 0) number(out.power_limit_max_mw, 0);
  if (api_->MaxClock) {
    number(out.max_sm_mhz, api_->MaxClock(*device, kClockSm, &a));
    number(out.max_memory_mhz, api_->MaxClock(*device, kClockMemory, &a));
  }
  if (api_->PcieGeneration) number(out.pcie_generation, api_->PcieGeneration(*device, &a));
  if (api_->PcieWidth) number(out.pcie_width, api_->PcieWidth(*device, &a));
  if (api_->Threshold) {
    number(out.slowdown_celsius, api_->Threshold(*device, kThresholdSlowdown, &a));
  }
  return out;
}

Nvml::Faults NvmlLibrary::Errors(int index) const {
  Nvml::Faults out;
  std::optional<Device> device = api_->Get(index);
  if (!device) return out;
  unsigned long long count = 0;
  // nvmlMemoryErrorType_t 0 corrected, 1 uncorrected; nvmlEccCounterType_t 0 volatile.
  if (api_->EccErrors && api_->EccErrors(*device, 0, 0, &count) == 0) {
    out.corrected = static_cast<int64_t>(count);
  }
  if (api_->EccErrors && api_->EccErrors(*device, 1, 0, &count) == 0) {
    out.uncorrected = static_cast<int64_t>(count);
  }
  constexpr int kInsufficientSize = 7;  // with no room for the addresses: only their count
  for (int cause = 0; api_->RetiredPages && cause < 2; ++cause) {
    Unsigned pages = 0;
    int status = api_->RetiredPages(*device, cause, &pages, nullptr);
    if (status != 0 && status != kInsufficientSize) break;
    out.retired_pages = out.retired_pages.value_or(0) + static_cast<int>(pages);
  }
  int flag = 0;
  if (api_->RetirementPending && api_->RetirementPending(*device, &flag) == 0) {
    out.retirement_pending = flag != 0;
  }
  Unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (api_->RemappedRows &&
      api_->RemappedRows(*device, &corrected, &uncorrected, &pending, &failed) == 0) {
    out.remapped_corrected = static_cast<int>(corrected);
    out.remapped_uncorrected = static_cast<int>(uncorrected);
    out.remap_pending = pending != 0;
    out.remap_failed = failed != 0;
  }
  return out;
}

Nvml::Sample NvmlLibrary::Take(int index) const {
  Nvml::Sample out;
  std::optional<Device> device = api_->Get(index, &out.problem);
  if (!device) return out;
  Unsigned a = 0;
  auto number = [&](std::optional<int>& target, int rc) {
    if (rc == kGpuIsLost) out.problem = api_->Text(rc);
    if (rc == 0 && a <= INT_MAX) target = static_cast<int>(a);  // above: NVML_VALUE_NOT_AVAILABLE
  };
  if (api_->Temperature) number(out.celsius, api_->Temperature(*device, kTemperatureGpu, &a));
  if (api_->Power) number(out.power_mw, api_->Power(*device, &a));
  if (api_->Clock) {
    number(out.sm_mhz, api_->Clock(*device, kClockSm, &a));
    number(out.memory_mhz, api_->Clock(*device, kClockMemory, &a));
  }
  if (api_->PcieGenerationNow) number(out.pcie_generation, api_->PcieGenerationNow(*device, &a));
  if (api_->PcieWidthNow) number(out.pcie_width, api_->PcieWidthNow(*device, &a));
  struct Utilization use {};
  if (api_->Utilization && api_->Utilization(*device, &use) == 0) {
    out.gpu_percent = static_cast<int>(use.gpu);
    out.memory_percent = static_cast<int>(use.memory);
  }
  MemoryInfo memory{};
  if (api_->Memory && api_->Memory(*device, &memory) == 0) {
    out.memory_used = static_cast<int64_t>(memory.used);
  }
  unsigned long long reasons = 0;
  if (api_->Throttle && api_->Throttle(*device, &reasons) == 0) out.throttle = reasons;
  return out;
}

}  // namespace xp::snapshot
