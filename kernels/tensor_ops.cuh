// What a kernel on tensor cores is made of (compute capability 8.0 and newer): copies into shared
// memory that run on their own, matrices of 8 x 8 from shared memory into registers, products.
// In a fragment of eight rows lane l has, of row l / 4, the elements 2 (l % 4) and the next.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace xp::kernels {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// The shared memory whose size the launch gave.
__device__ inline unsigned char* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  return dynamic_shared;
}

__device__ inline unsigned SharedAddress(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes; zeros where `inside` is false (`from` must be an address all the same).
__device__ inline void CopyAsync(unsigned to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Until at most `kPending` of the groups that this thread committed are under way.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

// Four matrices of eight rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8.
template <bool kTransposed>
__device__ inline void LoadMatrices(unsigned address, unsigned& r0, unsigned& r1, unsigned& r2,
                                    unsigned& r3) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
  }
}

// c [16 x 8] += a [16 x 16] b [16 x 8]. a: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15;
// b: its columns' elements 0-7, then 8-15; c: rows 0-7 (two elements), then 8-15.
__device__ inline void MultiplyAdd(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                   unsigned a3, unsigned b0, unsigned b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ inline void MultiplyAdd(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                   unsigned a3, unsigned b0, unsigned b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// c [16 x 8] += a [16 x 8] b [8 x 8].
__device__ inline void MultiplyAddHalf(float (&c)[4], unsigned a0, unsigned a1, unsigned b0,
                                       __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
__device__ inline void MultiplyAddHalf(float (&c)[4], unsigned a0, unsigned a1, unsigned b0,
                                       __half) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// v with the 10 bits of mantissa that a product in tf32 looks at, rounded to the nearest.
__device__ inline float ToTf32(float v) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(v));
  return __uint_as_float(bits);
}
// c [16 x 8] += a [16 x 8] b [8 x 8] in tf32. a: element l % 4 of rows l / 4 and l / 4 + 8, then
// element l % 4 + 4 of both; b: elements l % 4 and l % 4 + 4 of column l / 4.
__device__ inline void MultiplyAdd(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

#endif

}  // namespace xp::kernels
