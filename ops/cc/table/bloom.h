// Counts occurrences of ids that have no row, in a few bytes an id.
#ifndef PS_CLUSTER_OPS_TABLE_BLOOM_H_
#define PS_CLUSTER_OPS_TABLE_BLOOM_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace ps_cluster {

constexpr int kBloomSegmentBits = 12;
constexpr int kBloomSegments = 1 << kBloomSegmentBits;

// How a counting Bloom filter is cut. An id has `hashes` counters, all in the segment that the upper 12 bits of its
// routing hash name, because a range of that hash is what moves when the number of PS changes.
struct BloomShape {
  int hashes = 0;
  uint32_t counters = 0;  // of a segment
  int counter_bytes = 0;  // 2 where a threshold above 255 has to be counted
  uint32_t threshold = 0;

  int64_t segment_bytes() const { return int64_t{counters} * counter_bytes; }
};

// The smallest filter in which at most a share `error` of ids is taken for one that was seen before, when `capacity`
// ids are in it. The numbers of ids in the segments are taken to be Poisson.
BloomShape MakeBloomShape(int64_t capacity, double error, uint32_t threshold);

inline int BloomSegmentOf(uint64_t routing_hash) { return static_cast<int>(routing_hash >> (64 - kBloomSegmentBits)); }

// One segment, allocated when its first id comes. Not thread-safe.
class BloomCounters {
 public:
  bool allocated() const { return counters_ != nullptr; }
  void Allocate(const BloomShape& shape);
  void Clear() { counters_.reset(); }
  const uint8_t* data() const { return counters_.get(); }
  uint8_t* data() { return counters_.get(); }

  // Adds `count` occurrences and returns how often the id has occurred: never too few, at most the threshold. Only
  // counters that say less are raised (conservative update), which keeps other ids' counts low.
  uint32_t Add(const BloomShape& shape, uint64_t routing_hash, uint32_t count);
  // Makes the id's count 0 through its lowest counter. Ids that share that one counter lose their count; the others
  // keep theirs.
  void Reset(const BloomShape& shape, uint64_t routing_hash);
  // By the larger count.
  void Merge(const BloomShape& shape, const uint8_t* counters);

 private:
  std::unique_ptr<uint8_t[]> counters_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BLOOM_H_
