// Runs CUDA kernels on the CPU, one block after the other, its threads as fibers: what a .cu file includes in CUDA's place.
//
// Threads change only where they wait for each other (barriers and a warp's common instructions), in an order that can be
// chosen. A kernel whose result depends on that order, or on whether an asynchronous copy comes early or late, has a race.
// Memory that nothing was written to holds NaN. What is not emulated: how memory accesses of running threads interleave
// between those points, caches, bank conflicts, and the width and order of the tensor cores' own sums.
#ifndef PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_CUDA_EMULATOR_H_
#define PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_CUDA_EMULATOR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "numbers.h"
#include "tensor_cores.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define threadIdx (*::emulator::thread_index)
#define blockIdx (::emulator::block_index)

using std::min;

inline uint32_t __float_as_uint(float value) { return ::emulator::bits_of(value); }
inline float __uint_as_float(uint32_t bits) { return ::emulator::float_of(bits); }
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }

inline void __syncthreads() { ::emulator::barrier(); }

inline float __shfl_xor_sync(unsigned lanes, float value, int mask) {
  return ::emulator::shuffle_xor(lanes, value, mask);
}

#endif  // PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_CUDA_EMULATOR_H_
