// A case of the throughput matrix, and what was measured of it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace xp::bench {

struct Case {
  std::string program = "exp";  // or "torch"
  // "step": whole training steps on data that lies on the device. "loader": JPEGs to batches,
  // alone. "end_to_end": training from JPEGs.
  std::string kind = "step";
  std::string model = "resnet50";  // of models::Zoo()
  int batch = 32;
  std::string precision = "fp32";  // fp32 | tf32 | bf16 | fp16
  std::string device = "auto";     // auto | cpu | cuda | cuda:N
  bool tell_device = false;        // the matrix has several: part of the row's name
  bool captured = true;            // a step is one CUDA graph; false: kernels launched one by one
  bool fusion = true;              // the passes of graph/passes.h
  bool deterministic = true;
  bool largest = false;    // the batch was searched: the largest that fits
  int workers = 0;         // of loader and end_to_end
  std::string torch_mode;  // eager, compile

  int threads = 0;            // CPU; 0: all
  int height = 0, width = 0;  // 0: the model's own size
  double seconds_a_repeat = 1;
  int repeats = 5;
  int warmup = 5;             // steps, before the clocks are waited for
  double settle_seconds = 5;  // the longest wait for steady clocks
  double seconds_a_case = 0;  // from the first step on; 0: as long as it takes
  bool profile = false;       // also the time of each operation
};

enum class Status { kOk, kMemoryLimit, kTimeLimit, kFailed };
const char* StatusText(Status status);  // "ok", "mem lim", "time lim", "fail"

struct OperationTime {
  std::string name, type;
  double milliseconds = 0;
};

struct Row {
  Case c;
  Status status = Status::kOk;
  std::string reason;  // of all but ok, and of another precision than was asked for
  std::string device;  // "NVIDIA H200, driver 580.159.03, cuDNN 9.19.0"
  // Where it isn't that of the call (it was continued on another one of the kind): its identity.
  std::string machine;
  // When it was measured, nanoseconds since 1970; 0 in rows of stores that were written without it.
  // A row that answers another case, too, keeps the time of its measurement.
  int64_t measured_ns = 0;

  double images_per_second = 0;  // of the median repeat
  double milliseconds = 0;  // a step, of the median repeat; of time lim of the one that showed it
  double fastest = 0, slowest = 0;  // milliseconds a step, of the repeats that count
  double spread = 0;                // (slowest - fastest) / median
  int repeats = 0, outliers = 0;    // that count; that were left out
  int steps_a_repeat = 0;
  uint64_t bytes = 0;        // flat buffers, activations, workspaces, inputs
  double setup_seconds = 0;  // building, planning, searching cuDNN plans, first step
  // Of the last step, to see that it trained; NaN where nothing did, or not known.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double first_epoch_seconds = 0;  // end_to_end
  double epoch_seconds = 0;        // of the later ones, mean

  // While it was measured; 0 where the machine doesn't tell.
  double watts = 0, celsius = 0, sm_mhz = 0;
  std::vector<std::string> throttled;  // what held the clocks down, "power cap 80 %" of the samples

  // Of one step: 2 x multiply-adds of convolutions and linear layers; bytes that operations read
  // and write, each tensor once an operation.
  double flop = 0, moved_bytes = 0;
  // Achieved, as a share of the device's measured matrix and copy speed; 0 where not measured.
  double matrix_share = 0, copy_share = 0;
  std::vector<OperationTime> profile;
};

// What tells cases apart besides model, batch and precision: "graph fused deterministic", "8
// workers", "eager".
std::string Mode(const Case& c);
// Equal for the same case on two machines.
std::string Key(const Case& c);

int64_t NowNs();  // as measured_ns counts

std::string RowJson(const Row& row);
// For a text that isn't such a row one of status kFailed, with the reason.
Row RowFromJson(const std::string& json);

}  // namespace xp::bench
