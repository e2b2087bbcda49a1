#include "ops/cc/table/half.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ps_cluster {
namespace {

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float OneToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  if (rest >= 0x7c00) {  // infinity or NaN, which becomes quiet
    return FromBits(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x00400000 : 0));
  }
  if (rest < 0x0400) {  // subnormal: rest * 2^-24 is exact
    const float value = static_cast<float>(rest) * 0x1.0p-24f;
    return FromBits(sign | Bits(value));
  }
  return FromBits(sign | ((rest << 13) + ((127 - 15) << 23)));
}

uint16_t OneToHalf(float value) {
  const uint32_t bits = Bits(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (rest >> 13 & 0x3ff));
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and more
  if (rest < 0x38800000) {  // below 2^-14: a multiple of 2^-24
    const float shifted = FromBits(rest) + 0.5f;  // whose last bit is 2^-24: the addition rounds
    return static_cast<uint16_t>(sign | (Bits(shifted) - Bits(0.5f)));
  }
  const uint32_t odd = rest >> 13 & 1;
  return static_cast<uint16_t>(sign | ((rest - ((127 - 15) << 23) + 0xfff + odd) >> 13));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) int HalvesToFloats(const uint16_t* from, int n, float* to) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  return i;
}

__attribute__((target("avx,f16c"))) int FloatsToHalves(const float* from, int n, uint16_t* to) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

bool HasHalf() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}
#else
int HalvesToFloats(const uint16_t*, int, float*) { return 0; }
int FloatsToHalves(const float*, int, uint16_t*) { return 0; }
bool HasHalf() { return false; }
#endif

}  // namespace

void HalfToFloat(const uint16_t* from, int n, float* to) {
  for (int i = HasHalf() ? HalvesToFloats(from, n, to) : 0; i < n; ++i) to[i] = OneToFloat(from[i]);
}

void FloatToHalf(const float* from, int n, uint16_t* to) {
  for (int i = HasHalf() ? FloatsToHalves(from, n, to) : 0; i < n; ++i) to[i] = OneToHalf(from[i]);
}

void Bfloat16ToFloat(const uint16_t* from, int n, float* to) {
  for (int i = 0; i < n; ++i) to[i] = FromBits(static_cast<uint32_t>(from[i]) << 16);
}

void FloatToBfloat16(const float* from, int n, uint16_t* to) {
  for (int i = 0; i < n; ++i) {
    const uint32_t bits = Bits(from[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    to[i] = static_cast<uint16_t>(is_nan ? (bits >> 16 | 0x40) : rounded);
  }
}

}  // namespace ps_cluster
