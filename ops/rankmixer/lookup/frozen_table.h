// A trained table that nothing changes any more: id to row, by three lines of memory that are asked for in advance.
#ifndef PS_CLUSTER_OPS_RANKMIXER_LOOKUP_FROZEN_TABLE_H_
#define PS_CLUSTER_OPS_RANKMIXER_LOOKUP_FROZEN_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace ps_cluster {

constexpr int kBurst = 64;  // ids whose lines are asked for before the first of them is needed

// Not `__builtin_prefetch`: to GCC a function that does nothing else has no effect, and it drops the call of it.
inline void AskFor(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

// Finaliser of MurmurHash3 (public domain, Austin Appleby); `ops/lookup_concat.py` has it too.
inline uint64_t HashOfId(int64_t id) {
  uint64_t x = static_cast<uint64_t>(id);
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

// The keys lie in the order of their hashes, each row beside its key. Bucket b, the ids whose hash begins with the bits
// of b, are the keys from starts[b] to starts[b + 1]: one or two of them, next to each other. Nothing is empty, and an
// unknown id costs no more than a known one.
//
// Value: type of the stored embeddings, float, half, or int8 with a scale for each row. Index: int32 or int64, enough
// for the number of keys.
template <typename Value, typename Index>
struct FrozenTable {
  const int64_t* keys;
  int64_t num_keys;
  const Index* starts;
  int bits;           // 2^bits buckets
  const Value* rows;  // [num_keys + 1, dim]; the last one is every unknown id's
  int64_t dim;
  const float* scales = nullptr;  // [num_keys + 1], what each row is to be multiplied by; null: nothing

  // What the values of a row that `Find` gave are to be multiplied by.
  float ScaleOf(const Value* row) const { return scales == nullptr ? 1.0f : scales[(row - rows) / dim]; }

  // The row as float [dim]: where it lies, or converted in `room`, also [dim].
  const float* AsFloat(const Value* row, float* room) const {
    if constexpr (std::is_same_v<Value, float>) {
      return row;
    } else {
      CopyTo(row, room);
      return room;
    }
  }

  void CopyTo(const Value* row, float* out) const {
    if constexpr (std::is_same_v<Value, float>) {
      std::copy_n(row, dim, out);
    } else {
      const float scale = ScaleOf(row);
      for (int64_t k = 0; k < dim; ++k) out[k] = static_cast<float>(row[k]) * scale;
    }
  }

  uint64_t BucketOf(int64_t id) const { return (HashOfId(id) >> 1) >> (63 - bits); }

  // Rows of `n` ids, at most kBurst; their first lines are on the way when it returns.
  void Find(const int64_t* ids, int n, const Value** found) const {
    uint64_t buckets[kBurst];
    int64_t firsts[kBurst], lasts[kBurst];
    for (int i = 0; i < n; ++i) {
      buckets[i] = BucketOf(ids[i]);
      AskFor(starts + buckets[i]);
    }
    for (int i = 0; i < n; ++i) {
      // Bounded, so that a damaged index cannot lead out of the table.
      firsts[i] = std::clamp<int64_t>(starts[buckets[i]], 0, num_keys);
      lasts[i] = std::min<int64_t>(starts[buckets[i] + 1], num_keys);
      AskFor(keys + firsts[i]);
    }
    for (int i = 0; i < n; ++i) {
      int64_t at = firsts[i];
      while (at < lasts[i] && keys[at] != ids[i]) ++at;
      if (at >= lasts[i]) at = num_keys;
      if (scales != nullptr) AskFor(scales + at);
      const Value* row = rows + at * dim;
      found[i] = row;
      constexpr int64_t kLine = 64 / sizeof(Value), kLines = 4;  // beyond, the processor fetches by itself
      for (int64_t value = 0; value < std::min(dim, kLines * kLine); value += kLine) AskFor(row + value);
    }
  }
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_LOOKUP_FROZEN_TABLE_H_
