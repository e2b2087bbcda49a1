// A vector of float32 numbers in terms of the compiler's vector types, which every processor has in some width. What a
// set of instructions does better, its own struct (simd_avx2.h, simd_avx512.h) hides.
//
// Included only in the unit of one set of instructions, after its `#pragma GCC target`: all that is instantiated with
// the struct of a set is code of that set.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_H_

#include <cstdint>

#include "ops/rankmixer/block/number.h"

// A call would go through the library's table of symbols, and vectors through memory.
#define PS_CLUSTER_INLINE inline __attribute__((always_inline))

namespace ps_cluster {
namespace rankmixer {

// The types of a vector's lanes: float32, whole numbers of 32 bits with and without sign, 16 bits.
template <int kWidth>
struct VectorTypes;

#define PS_CLUSTER_VECTOR_TYPES(width)                          \
  template <>                                                   \
  struct VectorTypes<width> {                                   \
    typedef float F __attribute__((vector_size(4 * (width))));    \
    typedef int32_t I __attribute__((vector_size(4 * (width))));  \
    typedef uint32_t U __attribute__((vector_size(4 * (width)))); \
    typedef uint16_t H __attribute__((vector_size(2 * (width)))); \
  }
PS_CLUSTER_VECTOR_TYPES(4);
PS_CLUSTER_VECTOR_TYPES(8);
PS_CLUSTER_VECTOR_TYPES(16);
#undef PS_CLUSTER_VECTOR_TYPES

template <int kWidth>
struct Simd {
  static constexpr int kLanes = kWidth;
  // Whether `MultiplyAdd` takes lanes of its factors as pairs of bfloat16 numbers, and adds both products.
  static constexpr bool kPairs = false;
  using F = typename VectorTypes<kWidth>::F;
  using I = typename VectorTypes<kWidth>::I;
  using U = typename VectorTypes<kWidth>::U;
  using H = typename VectorTypes<kWidth>::H;

  // Subtracting zero changes no value, so that this is a broadcast and nothing more.
  static F Set(float value) { return value - F{}; }
  static U SetBits(uint32_t value) { return U{} + value; }

  static F Load(const float* from) {
    F value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void Store(float* to, F value) { __builtin_memcpy(to, &value, sizeof(value)); }
  // Past the caches; `to` is aligned to the vector.
  static void Stream(float* to, F value) { Store(to, value); }
  static H LoadShort(const uint16_t* from) {
    H value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void StoreShort(uint16_t* to, H value) { __builtin_memcpy(to, &value, sizeof(value)); }

  // The first `count` lanes, 0 < count < kLanes; the others are zero.
  static F LoadPart(const float* from, int count) {
    F value{};
    for (int i = 0; i < count && i < kLanes; ++i) value[i] = from[i];
    return value;
  }
  static void StorePart(float* to, F value, int count) {
    for (int i = 0; i < count && i < kLanes; ++i) to[i] = value[i];
  }
  static H LoadShortPart(const uint16_t* from, int count) {
    H value{};
    for (int i = 0; i < count && i < kLanes; ++i) value[i] = from[i];
    return value;
  }
  static void StoreShortPart(uint16_t* to, H value, int count) {
    for (int i = 0; i < count && i < kLanes; ++i) to[i] = value[i];
  }

  static U Iota() {
    U value{};
    for (int i = 0; i < kLanes; ++i) value[i] = static_cast<uint32_t>(i);
    return value;
  }
  // `value` in the first `count` lanes, zero in the others.
  static F First(F value, int count) { return Iota() < SetBits(static_cast<uint32_t>(count)) ? value : F{}; }

  static U Bits(F value) { return reinterpret_cast<U>(value); }
  static F FromBits(U bits) { return reinterpret_cast<F>(bits); }
  static F Abs(F value) { return FromBits(Bits(value) & 0x7fffffffu); }

  static F MultiplyAdd(F a, F b, F c) { return a * b + c; }
  static F Reciprocal(F value) { return Set(1.0f) / value; }

  // Sum of the lanes, in an order that depends on their number only.
  static float Sum(F value) {
    float part[kLanes];
    Store(part, value);
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) part[i] += part[i + width];
    }
    return part[0];
  }

  static F FromBfloat16(H value) { return FromBits(__builtin_convertvector(value, U) << 16); }
  // Rounds to nearest, ties to even; NaN stays NaN.
  static H ToBfloat16(F value) {
    const U bits = Bits(value);
    const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return __builtin_convertvector(value == value ? rounded : (bits >> 16) | 0x40u, H);
  }
  static F FromFloat16(H value) {
    F result{};
    for (int i = 0; i < kLanes; ++i) result[i] = HalfToFloat(value[i]);
    return result;
  }
  static H ToFloat16(F value) {
    H result{};
    for (int i = 0; i < kLanes; ++i) result[i] = FloatToHalf(value[i]);
    return result;
  }
};

// Baseline of the architecture: SSE2 on x86-64.
struct Baseline : Simd<4> {
  // Of a product's tile: rows, and vectors in a row.
  static constexpr int kTileRows = 6;
  static F ZipLow(F a, F b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static F ZipHigh(F a, F b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};

// Loads and stores of any type of number as float32; `count` lanes, all with count >= kLanes.
template <class V>
typename V::F LoadAs(const void* from, Number type, int64_t index, int64_t count) {
  if (type == Number::kFloat32) {
    const float* data = static_cast<const float*>(from) + index;
    return count >= V::kLanes ? V::Load(data) : V::LoadPart(data, static_cast<int>(count));
  }
  const uint16_t* data = static_cast<const uint16_t*>(from) + index;
  const typename V::H bits =
      count >= V::kLanes ? V::LoadShort(data) : V::LoadShortPart(data, static_cast<int>(count));
  return type == Number::kBfloat16 ? V::FromBfloat16(bits) : V::FromFloat16(bits);
}

// Whether whole vectors from `to` on may be stored with Stream.
template <class V>
bool CanStream(const void* to, Number type) {
  return type == Number::kFloat32 && reinterpret_cast<uintptr_t>(to) % (4 * V::kLanes) == 0;
}

template <class V>
void StoreAs(void* to, Number type, int64_t index, typename V::F value, int64_t count) {
  if (type == Number::kFloat32) {
    float* data = static_cast<float*>(to) + index;
    count >= V::kLanes ? V::Store(data, value) : V::StorePart(data, value, static_cast<int>(count));
    return;
  }
  uint16_t* data = static_cast<uint16_t*>(to) + index;
  const typename V::H bits = type == Number::kBfloat16 ? V::ToBfloat16(value) : V::ToFloat16(value);
  count >= V::kLanes ? V::StoreShort(data, bits) : V::StoreShortPart(data, bits, static_cast<int>(count));
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_SIMD_H_
