// Narrow floating-point formats, bit for bit.
#ifndef PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_NUMBERS_H_
#define PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_NUMBERS_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulator {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float bfloat16_to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

// Nearest, ties to even.
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size;
  if (exponent == 31) {
    size = mantissa == 0 ? HUGE_VALF : NAN;
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    size = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

// Nearest, ties to even; what is too large becomes infinite.
inline uint16_t float_to_half(float value) {
  const uint16_t sign = bits_of(value) >> 16 & 0x8000;
  if (std::isnan(value)) return sign | 0x7fff;
  const float size = std::fabs(value);
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24f));  // 1024 is the first normal
  int exponent;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const int mantissa = static_cast<int>(std::nearbyint(fraction * 2048));  // 2048 carries over into the exponent
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + mantissa - 1024);
}

// Nearest with 10 bits of mantissa, ties away from zero.
inline uint32_t float_to_tf32(float value) {
  const uint32_t bits = bits_of(value);
  return std::isfinite(value) ? (bits + 0x1000) & ~0x1fffu : bits;
}

}  // namespace emulator

#endif  // PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_NUMBERS_H_
