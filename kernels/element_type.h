// The element types of feature maps, for launchers that dispatch on them.
#pragma once

namespace xp::kernels {

enum class ElementType { kF32, kBF16, kF16 };

}  // namespace xp::kernels
