// The hash that everything about a key follows from: its PS, its initial value.
#ifndef PS_CLUSTER_OPS_TABLE_HASHING_H_
#define PS_CLUSTER_OPS_TABLE_HASHING_H_

#include <cstdint>

namespace ps_cluster {

// Finaliser of MurmurHash3 (public domain, Austin Appleby): every input bit
// changes every output bit with probability close to 1/2.
inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

// `salt` tells tables apart, so that one id lies elsewhere in each table.
inline uint64_t HashKey(int64_t key, int64_t salt) {
  return Mix64(static_cast<uint64_t>(key) + Mix64(static_cast<uint64_t>(salt)));
}

// Maps the upper half of the hash onto [0, num_ps) without a division; the
// lower half stays free for the buckets of hash tables.
inline int OwnerOf(uint64_t hash, int num_ps) {
  return static_cast<int>(((hash >> 32) * static_cast<uint64_t>(num_ps)) >> 32);
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_HASHING_H_
