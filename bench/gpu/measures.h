// The measurements of exp_gpu_bench.
#pragma once

#include "bench/gpu/bench_model.h"
#include "exp/graph/backend.h"

namespace xp::bench {

// Bytes read plus written a second by copies on the device, in GB/s.
double CopySpeed(graph::Backend& backend);

// Each different operation of the model's step by itself, over random data: time, bytes of its
// tensors (each once) and the share of copy speed. Detection operations, whose work depends on the
// values, are left to StepTable.
void OpTable(graph::Backend& backend, const BenchModel& m, graph::DType compute);

// Whole steps over images and boxes drawn at random: images a second, memory, and the operations
// that take longest.
void StepTable(graph::Backend& backend, const BenchModel& m, graph::DType compute, int steps);

}  // namespace xp::bench
