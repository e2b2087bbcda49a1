// Where the kernels run: on a CUDA device, or on the CPU through the emulator of the tests.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_PLATFORM_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_PLATFORM_CUH_

#include <cstddef>
#include <cstdint>

#ifdef PS_CLUSTER_EMULATOR
#include "cuda_emulator.h"
#else
#include <cuda_runtime.h>
#endif

namespace ps_cluster::rankmixer_cuda {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // of every block of every kernel
constexpr int kWarps = kThreads / kWarp;

#ifdef PS_CLUSTER_EMULATOR

using Stream = void*;

// A kernel's shared memory; there is one array of it, sized at the launch.
#define PS_CLUSTER_SHARED(name) unsigned char* name = ::emulator::shared_memory()

template <typename... P, typename... A>
int launch(void (*kernel)(P...), int64_t blocks_x, int blocks_y, int blocks_z, size_t shared_bytes, Stream, A... args) {
  if (blocks_x == 0 || blocks_y == 0 || blocks_z == 0) return 0;
  return ::emulator::run(dim3(static_cast<unsigned>(blocks_x), blocks_y, blocks_z), kThreads, shared_bytes,
                         [&] { kernel(args...); });
}

#else

using Stream = cudaStream_t;

#define PS_CLUSTER_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// Starts blocks_x * blocks_y * blocks_z blocks of kThreads threads; none is no error. Returns a code of the CUDA runtime.
template <typename... P, typename... A>
int launch(void (*kernel)(P...), int64_t blocks_x, int blocks_y, int blocks_z, size_t shared_bytes, Stream stream,
           A... args) {
  if (blocks_x == 0 || blocks_y == 0 || blocks_z == 0) return 0;
  constexpr size_t kWithoutAsking = 48 << 10;
  if (shared_bytes > kWithoutAsking) {
    const cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(shared_bytes));
    if (code != cudaSuccess) return code;
  }
  kernel<<<dim3(static_cast<unsigned>(blocks_x), blocks_y, blocks_z), kThreads, shared_bytes, stream>>>(args...);
  return cudaGetLastError();
}

#endif

__device__ inline int lane() { return threadIdx.x % kWarp; }
__device__ inline int warp() { return threadIdx.x / kWarp; }

// Sum over the lanes of a warp, in a fixed order, the same in each lane.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}

__host__ __device__ constexpr int64_t blocks_for(int64_t count, int64_t each) { return (count + each - 1) / each; }

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_PLATFORM_CUH_
