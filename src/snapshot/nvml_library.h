// NVIDIA's management library in this process, which it may end or hang: class Nvml asks it in a
// child. Source of the interface: the NVML API reference (docs.nvidia.com/deploy/nvml-api). Private
// to src/snapshot.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "exp/snapshot/nvml.h"

namespace xp::snapshot {

class NvmlLibrary {
 public:
  // As those of Nvml.
  static std::unique_ptr<NvmlLibrary> Load(std::string* why);
  ~NvmlLibrary();

  std::string driver() const;
  std::string cuda_driver() const;
  int count() const;
  Nvml::Static Describe(int device) const;
  Nvml::Faults Errors(int device) const;
  Nvml::Sample Take(int device) const;
  std::optional<int> CardOfMig(const std::string& uuid) const;
  std::optional<int> CardAt(const std::string& pci_bus_id) const;

 private:
  NvmlLibrary() = default;
  std::optional<int> IndexOf(void* card) const;
  struct Api;
  std::unique_ptr<Api> api_;
};

}  // namespace xp::snapshot
