// NVIDIA's management library, loaded when the program runs so that it also runs without a driver,
// and in a child process: a broken driver ends or hangs whoever asks it, as a card that fell off
// the bus does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace xp::snapshot {

class Nvml {
 public:
  // nullptr where there is no driver, or none that answers within 30 s; `why` (may be null) says
  // what is wrong. The file is libnvidia-ml.so.1, or EXP_NVML names another one. All the others may
  // be called by several threads. What isn't answered within 5 s is told by nobody, and a card of
  // which that is so twice isn't asked for again: the others go on being told of.
  static std::shared_ptr<Nvml> Load(std::string* why = nullptr);
  struct Loaded {
    std::shared_ptr<Nvml> nvml;
    std::string why;
  };
  // The one that is in use, else one that is loaded now. A command that asks more than once holds
  // it from its beginning on: its child is forked then, before memory, threads and CUDA contexts
  // come that the child would keep, and one that hangs whoever asks it is waited for once.
  static std::shared_ptr<const Loaded> Shared();
  ~Nvml();

  // What stays the same from minute to minute; what the card or the driver doesn't tell is absent.
  struct Static {
    std::string problem;  // why NVML tells nothing of it ("GPU is lost"); empty: it does
    std::string name, uuid;
    int major = 0, minor = 0;  // compute capability
    std::optional<int64_t> memory_bytes;
    std::optional<bool> persistence, ecc, mig;
    std::optional<int> power_limit_mw, power_limit_default_mw, power_limit_max_mw;
    std::optional<int> max_sm_mhz, max_memory_mhz;
    std::optional<int> pcie_generation, pcie_width, slowdown_celsius;  // of PCIe: the most it can
    std::optional<int> compute_mode;  // 0: default; 1, 3: exclusive; 2: prohibited
    int mig_instances = 0;
  };
  // Errors of its memory since the driver was loaded (volatile) or ever (pages, rows).
  struct Faults {
    std::optional<int64_t> corrected, uncorrected;  // ECC, volatile
    std::optional<int> retired_pages;               // cards before Ampere
    std::optional<bool> retirement_pending;
    std::optional<int> remapped_corrected, remapped_uncorrected;  // rows; Ampere and later
    std::optional<bool> remap_pending, remap_failed;
  };
  struct Sample {
    std::string problem;  // as above: the card may be lost while it is watched
    std::optional<int> celsius, power_mw, sm_mhz, memory_mhz, gpu_percent, memory_percent;
    std::optional<int> pcie_generation, pcie_width;  // of the link now: it sleeps when idle
    std::optional<int64_t> memory_used;
    std::optional<uint64_t> throttle;  // nvmlClocksThrottleReason* bits
  };

  const std::string& driver() const { return driver_; }
  const std::string& cuda_driver() const { return cuda_driver_; }  // "12.4"
  int count() const { return count_; }
  Static Describe(int device) const;
  Faults Errors(int device) const;
  Sample Take(int device) const;
  // The number of the card that a MIG instance ("MIG-41b36413-...") is a part of.
  std::optional<int> CardOfMig(const std::string& uuid) const;
  // The number of the card at that place ("0000:3B:00.0", as CUDA tells it).
  std::optional<int> CardAt(const std::string& pci_bus_id) const;

 private:
  Nvml();
  struct Asked;
  std::unique_ptr<Asked> asked_;
  std::string driver_, cuda_driver_;
  int count_ = 0;
};

// NVML's numbers of the GPUs that CUDA_VISIBLE_DEVICES lets CUDA see, in CUDA's order (that of
// CUDA_DEVICE_ORDER=PCI_BUS_ID; uuids are matched by their beginning). Where a MIG instance is
// among them CUDA sees the first of those and nothing else (MIG User Guide, "CUDA Device
// Enumeration"): its card.
std::vector<int> VisibleGpus(const Nvml& nvml);

// NVML's number of CUDA's device `cuda`: of the card at that place, and where CUDA tells none
// (empty) of the one that stands there among the visible ones.
std::optional<int> CardOfCuda(const Nvml& nvml, int cuda, const std::string& pci_bus_id);

// Why a card's clocks are held down: a bit of nvmlClocksThrottleReasons.
struct ThrottleReason {
  uint64_t bit;
  const char* name;  // "power cap"
  const char* code;  // of a run's warning
  const char* text;  // what has happened to the card, as its end of a sentence
};
// Those of idleness and of clocks set on purpose are no trouble, and left out.
std::vector<const ThrottleReason*> ReasonsIn(uint64_t bits);
// Their names; empty when nothing holds the clocks down.
std::vector<std::string> ThrottleReasons(uint64_t bits);

}  // namespace xp::snapshot
