// Which hidden units are dropped: a hash of (seed, token, row, unit), the one of the block's CPU kernels, so that a mask need
// not be stored and is the same on every device.
//
// All numbers are unsigned, of 32 or 64 bits, and wrap around. mix64 is the finalizer of SplitMix64:
//
//   mix64(z):  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;  z = (z ^ z >> 27) * 0x94d049bb133111eb;  z ^ z >> 31
//   row key:   key = mix64(mix64(seed[0] + 0x9e3779b97f4a7c15) ^ seed[1]);  key = mix64(key ^ (token << 40) ^ row)
//   unit hash: h = (unit * 0x9e3779b1) ^ low32(key);  h = (h ^ h >> 16) * 0x85ebca6b;  h = h ^ high32(key);
//              h = (h ^ h >> 13) * 0xc2b2ae35;  h = h ^ h >> 16
//
// A unit is dropped where h < threshold = floor(dropout * 2^32), the product taken in float64.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_

#include "ops/rankmixer_cuda/product.cuh"

namespace ps_cluster::rankmixer_cuda {

struct Dropout {
  const int64_t* seed;  // [2], looked at only when something is dropped
  uint32_t threshold;   // 0: nothing is
  float scale;          // of what is not dropped

  Dropout(const int64_t* seed, float share)
      : seed(seed),
        threshold(static_cast<uint32_t>(static_cast<double>(share) * 4294967296.0)),
        scale(threshold == 0 ? 1 : 1 / (1 - share)) {}

  // Sets dropped values to 0 and scales the others.
  __device__ void apply(const Place& at, float (&values)[kPiece]) const {
    if (threshold == 0) return;
    uint64_t key = mix64(mix64(static_cast<uint64_t>(seed[0]) + 0x9e3779b97f4a7c15u) ^ static_cast<uint64_t>(seed[1]));
    key = mix64(key ^ static_cast<uint64_t>(at.token) << 40 ^ static_cast<uint64_t>(at.row));
    const uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      uint32_t h = (static_cast<uint32_t>(at.unit + i) * 0x9e3779b1u) ^ low;
      h = (h ^ h >> 16) * 0x85ebca6bu;
      h ^= high;
      h = (h ^ h >> 13) * 0xc2b2ae35u;
      h ^= h >> 16;
      values[i] = h < threshold ? 0 : values[i] * scale;
    }
  }

 private:
  __device__ static uint64_t mix64(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_DROPOUT_CUH_
