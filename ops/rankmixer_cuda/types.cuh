// bfloat16 and float16 as bits in memory; all arithmetic on them is in float32.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_TYPES_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_TYPES_CUH_

#include "ops/rankmixer_cuda/platform.cuh"

namespace ps_cluster::rankmixer_cuda {

struct BFloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(BFloat16 value) { return __uint_as_float(static_cast<uint32_t>(value.bits) << 16); }
__device__ inline float to_float(Half value) {
#if defined(PS_CLUSTER_EMULATOR)
  return ::emulator::half_to_float(value.bits);
#elif defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return 0;
#endif
}

// Rounds to the nearest, ties to even.
__device__ inline void from_float(float value, float* result) { *result = value; }
__device__ inline void from_float(float value, BFloat16* result) {
#if defined(PS_CLUSTER_EMULATOR)
  result->bits = ::emulator::float_to_bfloat16(value);
#elif defined(__CUDA_ARCH__)
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result->bits) : "f"(value));
#endif
}
__device__ inline void from_float(float value, Half* result) {
#if defined(PS_CLUSTER_EMULATOR)
  result->bits = ::emulator::float_to_half(value);
#elif defined(__CUDA_ARCH__)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result->bits) : "f"(value));
#endif
}

template <typename T>
__device__ inline float rounded(float value) {
  T result;
  from_float(value, &result);
  return to_float(result);
}

// V values that are read and written as one access; their address is a multiple of their size.
template <typename T, int V>
struct alignas(V * sizeof(T)) Pack {
  T of[V];
};

template <int V, typename T>
__device__ inline void load(const T* from, float (&values)[V]) {
  const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) values[i] = to_float(pack.of[i]);
}

template <int V, typename T>
__device__ inline void store(const float (&values)[V], T* to) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) from_float(values[i], &pack.of[i]);
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// Values in the 16 bytes of the widest access.
template <typename T>
constexpr int kChunk = 16 / sizeof(T);

inline bool aligned(const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_TYPES_CUH_
