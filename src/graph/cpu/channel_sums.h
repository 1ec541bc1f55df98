// Sums over the rows of a [rows, channels] matrix, one result a channel: batch statistics, bias and
// scale gradients.
//
// The rows are cut into chunks that depend on the shape alone. A chunk is summed in fp32 in row
// order, each channel in its own lane; the chunks' sums are then added in double in chunk order.
// So the bits depend neither on the number of threads nor on the width of vectors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {

struct RowSplit {
  int64_t rows = 0, channels = 0;
  int64_t rows_per_chunk = 1, chunks = 0;

  int64_t Begin(int64_t chunk) const { return chunk * rows_per_chunk; }
  int64_t elements() const { return rows * channels; }
  int64_t RowsOf(int64_t chunk) const { return std::min(rows_per_chunk, rows - Begin(chunk)); }
};

// Rows a chunk are a multiple of 8, so that a chunk begins on a byte of a bit mask.
RowSplit SplitRows(const Rows& shape);

// sum[c] += the sum over rows of x.
void AddRowSums(const float* x, int64_t rows, int64_t channels, float* sum);
// sum[c] += x - shift[c], square[c] += its square. A shift near the mean, the mean of the first
// rows, keeps squares from cancelling whatever the mean is.
void AddShiftedMoments(const float* x, const float* shift, int64_t rows, int64_t channels,
                       float* sum, float* square);
// sum[c] += dy, product[c] += dy * (x - mean[c]).
void AddGradSums(const float* dy, const float* x, const float* mean, int64_t rows, int64_t channels,
                 float* sum, float* product);

// result[c] = sum over chunks of partial[chunk][c], in double.
void AddPartials(int threads, const float* partial, int64_t chunks, int64_t channels,
                 float* result);

}  // namespace xp::graph::cpu
