// Opens the device that a run asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::train {

struct DeviceRequest {
  std::string device = "auto";     // auto | cpu | cuda | cuda:N
  std::string precision = "fp32";  // fp32 | tf32 | bf16 | fp16
  int threads = 0;
  bool deterministic = true;
  std::vector<std::string> plans;  // Backend::PlanNotes() of an earlier run
};

struct OpenedDevice {
  std::unique_ptr<graph::Backend> backend;
  graph::DType compute = graph::DType::kF32;
  std::string precision = "fp32";  // what is computed
  // Why that isn't what was asked for, or why it is slow here; empty: nothing to say.
  std::string precision_note;
};

// Whether it reads auto, cpu, cuda or cuda:N; asks no driver.
bool IsDeviceName(const std::string& device);
// The number of the GPU that a name means, -1 for the CPU. Throws UsageError for what is no name.
int CudaNumber(const std::string& device);
// What a device computes when it is asked for a precision; `backend` stays empty.
OpenedDevice PrecisionOn(const std::string& device, const std::string& precision);
// Throws UsageError for a device that isn't there.
OpenedDevice OpenDevice(const DeviceRequest& request);

}  // namespace xp::train
