// Vectors of 16 numbers: AVX-512 (F, BW, DQ, VL).
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX512_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX512_H_

#include <immintrin.h>

#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

struct Avx512 : Simd<16> {
  // 28 sums, two vectors of b and one number of a: 31 of the 32 registers.
  static constexpr int kTileRows = 14;

  // GCC 12 warns of its own unmasked forms.
  static constexpr __mmask16 kAll = 0xffff;

  static __mmask16 Mask(int count) { return static_cast<__mmask16>((1u << count) - 1u); }
  static F LoadPart(const float* from, int count) { return (F)_mm512_maskz_loadu_ps(Mask(count), from); }
  static void StorePart(float* to, F value, int count) { _mm512_mask_storeu_ps(to, Mask(count), (__m512)value); }
  static H LoadShortPart(const uint16_t* from, int count) {
    return (H)_mm256_maskz_loadu_epi16(Mask(count), from);
  }
  static void StoreShortPart(uint16_t* to, H value, int count) {
    _mm256_mask_storeu_epi16(to, Mask(count), (__m256i)value);
  }
  static void Stream(float* to, F value) { _mm512_stream_ps(to, (__m512)value); }
  static F MultiplyAdd(F a, F b, F c) { return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
  // The approximation of 14 bits and one step of Newton's: within one unit in the last place. Finite values only.
  static F Reciprocal(F value) {
    const F guess = (F)_mm512_maskz_rcp14_ps(kAll, (__m512)value);
    return MultiplyAdd(guess, (F)_mm512_fnmadd_ps((__m512)value, (__m512)guess, (__m512)Set(1.0f)), guess);
  }
  static F FromFloat16(H value) { return (F)_mm512_maskz_cvtph_ps(kAll, (__m256i)value); }
  static H ToFloat16(F value) { return (H)_mm512_maskz_cvtps_ph(kAll, (__m512)value, _MM_FROUND_TO_NEAREST_INT); }
  static F ZipLow(F a, F b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static F ZipHigh(F a, F b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_AVX512_H_
