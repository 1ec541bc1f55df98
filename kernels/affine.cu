// One pass, norm_apply.cuh: reads x (and the residual), writes y and the mask.
#include "kernels/affine.h"

#include "kernels/norm_apply.cuh"

namespace xp::kernels {

void Affine(const AffineArgs& args, int64_t rows, int channels, ElementType type,
            cudaStream_t stream) {
  if (rows == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    LaunchNormApply<true, T>({.x = static_cast<const T*>(args.x),
                              .residual = static_cast<const T*>(args.residual),
                              .y = static_cast<T*>(args.y),
                              .mask = args.mask,
                              .scale = args.scale,
                              .bias = args.bias,
                              .mean = args.mean,
                              .spread = args.var,
                              .eps = args.eps,
                              .relu = args.relu,
                              .from_end = false,
                              .rows = rows,
                              .channels = channels},
                             stream);
  });
}

}  // namespace xp::kernels
