// Which hidden units are dropped: a hash of seed, token, row and unit, nothing else.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_

#include "ops/rankmixer_cuda/product.cuh"

namespace ps_cluster::rankmixer_cuda {

struct Dropout {
  const int64_t* seed;  // [2], looked at only when share is above 0
  float share;          // of units that are dropped

  __device__ static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  // Sets dropped values to 0 and scales the others by 1 / (1 - share).
  __device__ void apply(const Place& at, float (&values)[kPiece]) const {
    if (share == 0) return;
    uint64_t key = mixed(static_cast<uint64_t>(seed[0])) ^ static_cast<uint64_t>(seed[1]);
    key = mixed(mixed(key) ^ static_cast<uint64_t>(at.token));
    key = mixed(key ^ static_cast<uint64_t>(at.row));
    const float scale = 1 / (1 - share);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const uint64_t draw = mixed(key ^ static_cast<uint64_t>(at.unit + i));
      values[i] = static_cast<float>(draw >> 40) * 0x1p-24f < share ? 0 : values[i] * scale;
    }
  }
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_
