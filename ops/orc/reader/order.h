// The order of a read: a function of (seed, epoch, row counts), the same as data/read/order.py finds.
#ifndef PS_CLUSTER_OPS_ORC_READER_ORDER_H_
#define PS_CLUSTER_OPS_ORC_READER_ORDER_H_

#include <cstdint>
#include <vector>

namespace ps_cluster::orc {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
inline uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

constexpr uint64_t kPartsStream = 0;
constexpr uint64_t kFirstWindowStream = 1;

// The key that one permutation is drawn with.
inline uint64_t OrderKey(uint64_t seed, uint64_t epoch, uint64_t stream) {
  uint64_t k = Mix(seed + kGolden);
  k = Mix(k + epoch * kGolden + 1);
  return Mix(k + stream * kGolden + 2);
}

// 0 to n - 1, sorted by (Mix(key + (number + 1) * kGolden), number). `n` is below 2^32.
std::vector<uint32_t> Permutation(int64_t n, uint64_t key);

// The order of an epoch's parts, cut into groups that take turns.
class EpochOrder {
 public:
  // Without shuffling, parts come as they are and each is a group of its own.
  EpochOrder(int64_t parts, bool shuffled, uint64_t seed, uint64_t epoch, int64_t interleave);

  int64_t groups() const;
  // Numbers of the parts of group `g`, in order.
  std::vector<int64_t> Group(int64_t g) const;

 private:
  int64_t parts_;
  int64_t group_size_;
  std::vector<uint32_t> order_;  // empty: as they are
};

// First row of chunk `c` of the `chunks` that a part of `rows` rows is cut into.
inline int64_t ChunkStart(int64_t rows, int64_t c, int64_t chunks) {
  return static_cast<int64_t>(static_cast<__int128>(rows) * c / chunks);
}

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_ORDER_H_
