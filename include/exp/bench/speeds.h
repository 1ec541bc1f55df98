// What a device can do at best, measured: copying and multiplying. Throughput is put against it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "exp/graph/backend.h"

namespace xp::bench {

struct DeviceSpeeds {
  double copy_bytes_a_second = 0;   // read plus written
  double matrix_flop_a_second = 0;  // 2 M N K of a large square product in the compute type
};

// Takes about a second and, on a GPU, 2.5 GiB. What doesn't fit or doesn't run is 0.
DeviceSpeeds MeasureSpeeds(graph::Backend& backend, graph::DType compute);

// By the device as it was asked for and what it computed in: "auto bf16"; of a call that goes on on
// another machine also by that: "auto bf16 on MACHINE".
using SpeedsByDevice = std::map<std::string, DeviceSpeeds>;
std::string SpeedsJson(const SpeedsByDevice& speeds);
SpeedsByDevice SpeedsFromJson(const std::string& text);  // what can't be read is left out
// "copies 3.334 TB/s, multiplies 754.58 TFLOP/s"
std::string SpeedsText(const DeviceSpeeds& speeds);

// One large product that can be launched again and again, to keep a device busy.
class MatrixLoad {
 public:
  MatrixLoad(graph::Backend& backend, graph::DType compute, int size);
  ~MatrixLoad();
  MatrixLoad(const MatrixLoad&) = delete;
  MatrixLoad& operator=(const MatrixLoad&) = delete;
  void Run(int times);  // and waits
  double flop() const;  // of one product

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xp::bench
