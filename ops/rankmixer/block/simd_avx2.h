// Vectors of 8 numbers: AVX2 with FMA and F16C.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX2_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX2_H_

#include <immintrin.h>

#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

struct Avx2 : Simd<8> {
  // 12 sums, two vectors of b and one number of a: 15 of the 16 registers.
  static constexpr int kTileRows = 6;

  static __m256i Mask(int count) { return (__m256i)(Iota() < SetBits(static_cast<uint32_t>(count))); }
  static F LoadPart(const float* from, int count) { return (F)_mm256_maskload_ps(from, Mask(count)); }
  static void StorePart(float* to, F value, int count) { _mm256_maskstore_ps(to, Mask(count), (__m256)value); }
  static void Stream(float* to, F value) { _mm256_stream_ps(to, (__m256)value); }
  static F MultiplyAdd(F a, F b, F c) { return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
  static F FromFloat16(H value) { return (F)_mm256_cvtph_ps((__m128i)value); }
  static H ToFloat16(F value) { return (H)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT); }
  static F ZipLow(F a, F b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static F ZipHigh(F a, F b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX2_H_
