// Types of numbers that tensors of the block hold, and the conversions of single numbers.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_NUMBER_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_NUMBER_H_

#include <cstdint>
#include <cstring>

namespace ps_cluster {
namespace rankmixer {

enum class Number { kFloat32, kBfloat16, kFloat16 };

inline int64_t SizeOf(Number type) { return type == Number::kFloat32 ? 4 : 2; }

// The element `index` elements after `data`.
inline const void* At(const void* data, Number type, int64_t index) {
  return static_cast<const char*>(data) + index * SizeOf(type);
}
inline void* At(void* data, Number type, int64_t index) { return static_cast<char*>(data) + index * SizeOf(type); }

inline float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t FloatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  if (rest >= 0x7c00) return BitsToFloat(sign | 0x7f800000 | ((rest & 0x3ff) << 13));
  // Scaled by 2^112 the exponents agree; the multiplication also makes subnormal numbers normal.
  return BitsToFloat(sign | FloatToBits(BitsToFloat(rest << 13) * BitsToFloat(0x77800000)));
}

// Rounds to nearest, ties to even.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = FloatToBits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return sign | 0x7e00;
  if (rest >= 0x477ff000) return sign | 0x7c00;
  if (rest < 0x38800000) {
    // Adding 0.5 leaves the units of float16's subnormal numbers, 2^-24, as the last bits.
    return sign | static_cast<uint16_t>(FloatToBits(BitsToFloat(rest) + 0.5f) - 0x3f000000);
  }
  return sign | static_cast<uint16_t>((rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13);
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_NUMBER_H_
