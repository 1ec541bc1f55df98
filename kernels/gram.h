// Gram statistics (include/exp/graph/ops.h, kGramStatistics and kGramGrad): what is left beside the
// matrix products, which are another library's. N rows of a, C columns; y has K columns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// centre = sum / rows; gram [C, C] becomes gram / rows - centre centre^T; wide [K, C] = w.
struct GramCentreArgs {
  const float* sum;  // [C], of a over its rows
  float* gram;       // [C, C], a^T a before
  float* centre;     // [C]
  const void* w;     // [K, C]
  float* wide;       // [K, C]; null: not wanted
  float rows;
  int channels, outputs;
};
void GramCentre(const GramCentreArgs& args, ElementType type, cudaStream_t stream);

// Statistics of y from product [K, C] = w gram, as kBatchNorm's.
struct GramStatisticsArgs {
  const float *w, *product, *centre;  // [K, C], [K, C], [C]
  const float *mean, *var;            // running statistics before ..
  float *mean_after, *var_after;      // .. and after; may be the same arrays
  float *save_mean, *save_invstd;     // [K]
  float rows, eps, momentum;
  int channels, outputs;
};
void GramStatistics(const GramStatisticsArgs& args, cudaStream_t stream);

// The rows of kGramGrad: with cross [K, C] = g^T a the weights' gradient and the factors of
// dy = A g + B y + C. wide = w and scaled_wide = B w, in fp32, are for the product that mixes a;
// constant = C.
struct GramGradArgs {
  const float *cross, *product, *centre;
  const float *dbias, *scale, *save_mean, *save_invstd;  // [K]
  const void* w;                                         // [K, C]
  void* dw;                                              // [K, C]; may be null
  float* dscale;                                         // [K]
  void* scaled;                                          // [K, C] = A w
  float *wide, *scaled_wide, *constant;                  // wide may be null
  float rows;
  int channels, outputs;
};
void GramGradRows(const GramGradArgs& args, ElementType type, cudaStream_t stream);

// mix [C, C] rounded to the type; shift [C] = the sum over k of constant[k] wide[k, c].
void GramGradColumns(const float* mix, void* rounded, const float* constant, const float* wide,
                     float* shift, int channels, int outputs, ElementType type,
                     cudaStream_t stream);

}  // namespace xp::kernels
