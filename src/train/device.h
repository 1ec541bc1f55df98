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
  std::vector<std::string> plans;  // CudaOptions::plans
};

struct OpenedDevice {
  std::unique_ptr<graph::Backend> backend;
  graph::DType compute = graph::DType::kF32;
  bool precision_lowered = false;  // the CPU computes in fp32 what was asked for in bf16 or fp16
};

// Throws UsageError for a device that isn't there.
OpenedDevice OpenDevice(const DeviceRequest& request);

}  // namespace xp::train
