// The checks that measure: disks, JPEG decoding, memory, a GPU under load. Those that are stopped
// return soon, with what is no result.
#pragma once

#include <string>

#include "exp/base/error.h"
#include "exp/base/stop.h"
#include "exp/doctor/checks.h"
#include "exp/doctor/finding.h"
#include "exp/graph/backend.h"
#include "exp/graph/memory_check.h"

namespace xp::doctor {

// ---- the data folder
struct ReadSpeed {
  int64_t files_seen = 0, images_seen = 0;
  double sequential_bytes_a_second = 0;  // 0: not measured
  double small_files_a_second = 0, small_bytes_a_second = 0;
  int threads = 0;
  bool own_file = false;            // a file that was written for it: the folder holds no large one
  std::vector<std::string> images;  // some JPEGs, for the decoding
  std::string problem, sequential_problem;  // why nothing, or no large file, was read
};
// Around the page cache as far as the system lets one. `seconds` bounds each of the two parts.
ReadSpeed MeasureReads(const std::string& folder, double seconds, StopFlag stop = nullptr);
Findings JudgeReads(const std::string& folder, const ReadSpeed& speed);

// ---- decoding
struct DecodeSpeed {
  double images_a_second_core = 0, images_a_second_all = 0;
  int threads = 0;
  double megapixels = 0, kilobytes = 0;  // mean of an image
  bool drawn = false;                    // images made here, of 500 x 375
  std::string problem;  // that some of the folder couldn't be decoded; empty: none was
};
DecodeSpeed MeasureDecode(const std::vector<std::string>& images, double seconds,
                          StopFlag stop = nullptr);

// What the loader can feed, from both, against what the device needs for ResNet-50
// (`needed_images_a_second`, 0: not known).
Findings JudgeLoader(const ReadSpeed& reads, const DecodeSpeed& decode,
                     double needed_images_a_second);
// ResNet-50's training as bounded by a device's measured speeds: it computes 24.3 GFLOP an image
// and moves 257 MB on a GPU (bf16, batch 256; docs/bench.md), 629 MB on a CPU (fp32, batch 32).
double ResNetNeed(double copy_bytes_a_second, double matrix_flop_a_second, bool cuda);

// ---- a device under load
struct LoadResult {
  LoadSeen seen;
  double flop_a_second = 0, first_flop_a_second = 0;  // over all of it; over its first second
};
// Multiplies for `seconds` in this thread while another one asks NVML (not for the CPU).
LoadResult LoadDevice(graph::Backend& backend, graph::DType compute, int nvml_index, double seconds,
                      StopFlag stop = nullptr);
Finding JudgeSpeedUnderLoad(const LoadResult& load);
Finding LoadFailed(int nvml_index, const Error& error);  // what LoadDevice threw

// ---- memory; cuda_device -1: of this process. Throws Error of kind kInterrupted.
Finding CheckMemoryOf(int cuda_device, bool deep, StopFlag stop = nullptr);
Finding JudgeMemory(int cuda_device, const graph::MemoryCheck& check);

// ---- threads: those that could be started of one for each CPU
Finding JudgeThreads(int started, int wanted);

}  // namespace xp::doctor
