// Which hidden units are dropped: a hash of (seed, token, row, unit), so that the backward pass, or any other program,
// finds the same ones without a mask being stored.
//
// All numbers are unsigned, of 32 or 64 bits, and wrap around. mix64 is the finalizer of SplitMix64:
//
//   mix64(z):  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;  z = (z ^ z >> 27) * 0x94d049bb133111eb;  z ^ z >> 31
//   row key:   key = mix64(mix64(seed[0] + 0x9e3779b97f4a7c15) ^ seed[1]);  key = mix64(key ^ (token << 40) ^ row)
//   unit hash: h = (unit * 0x9e3779b1) ^ low32(key);  h = (h ^ h >> 16) * 0x85ebca6b;  h = h ^ high32(key);
//              h = (h ^ h >> 13) * 0xc2b2ae35;  h = h ^ h >> 16
//
// A unit is dropped where h < threshold = floor(dropout * 2^32), the product taken in float64.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_DROPOUT_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_DROPOUT_H_

#include <cstdint>

#include "ops/rankmixer/block/spec.h"

namespace ps_cluster {
namespace rankmixer {

inline uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The hidden units of one row of one token.
struct DropoutRow {
  uint32_t threshold = 0;  // 0: nothing is dropped
  uint32_t low = 0, high = 0;
  float scale = 1.0f;  // of what is not dropped

  DropoutRow() = default;
  DropoutRow(const BlockSpec& spec, int64_t token, int64_t row) {
    if (spec.dropout <= 0.0f) return;
    threshold = static_cast<uint32_t>(static_cast<double>(spec.dropout) * 4294967296.0);
    const uint64_t key = Mix64(Mix64(spec.seed[0] + 0x9e3779b97f4a7c15) ^ spec.seed[1]);
    const uint64_t mixed = Mix64(key ^ (static_cast<uint64_t>(token) << 40) ^ static_cast<uint64_t>(row));
    low = static_cast<uint32_t>(mixed);
    high = static_cast<uint32_t>(mixed >> 32);
    scale = 1.0f / (1.0f - spec.dropout);
  }
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_DROPOUT_H_
