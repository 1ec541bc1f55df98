// Counter-based random numbers: Philox4x32-10.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
//
// A value is a pure function of (key, counter), so what a sample or an anchor draws doesn't depend
// on which worker or GPU thread asks for it, or on how often others asked. The code is shared by
// the CPU and by CUDA kernels.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define XP_HOST_DEVICE __host__ __device__
#else
#define XP_HOST_DEVICE
#endif

namespace xp {

struct Philox4 {
  uint32_t v[4];
};

// What a random number is for; a part of the counter, so that streams never overlap.
enum class RandomPurpose : uint32_t {
  kInit = 1,       // parameter initialisation
  kShuffle = 2,    // order of samples in an epoch
  kAugment = 3,    // flips, scales, crops, colours
  kRpnSample = 4,  // which anchors are sampled
  kRoiSample = 5,  // which proposals are sampled
  kDropout = 6,
  kSynthesize = 7,  // drawn data sets
  kTest = 99,
};

XP_HOST_DEVICE inline uint32_t PhiloxMulHi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

XP_HOST_DEVICE inline Philox4 Philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                     uint32_t c3) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint32_t hi0 = PhiloxMulHi(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
    uint32_t hi1 = PhiloxMulHi(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Philox4{{c0, c1, c2, c3}};
}

// A uniform float in [0, 1) with 24 bits.
XP_HOST_DEVICE inline float UniformFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// The stream of one sample for one purpose: next values are drawn one after another on the host.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint32_t epoch, uint32_t sample)
      : seed_(seed), purpose_(static_cast<uint32_t>(purpose)), epoch_(epoch), sample_(sample) {}

  uint32_t NextU32();
  // Uniform in [0, 1), 53 bits.
  double NextDouble();
  // Uniform in [low, high).
  double Uniform(double low, double high) { return low + (high - low) * NextDouble(); }
  // Uniform over 0 .. n-1 without modulo bias; n >= 1.
  uint32_t Below(uint32_t n);
  // Standard normal (Box-Muller). Takes kWordsPerNormal words of the stream.
  double Normal();
  static constexpr uint32_t kWordsPerDouble = 2, kWordsPerNormal = 4;
  // Goes on at the 32-bit word of that number, counted from the stream's start; below 2^34.
  void Seek(uint64_t word);

 private:
  uint64_t seed_;
  uint32_t purpose_, epoch_, sample_;
  uint32_t index_ = 0;
  Philox4 block_{};
  int used_ = 4;
};

}  // namespace xp
