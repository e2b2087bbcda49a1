// Finds the row of a key in one cache line: buckets of twelve one-byte tags and row references.
#ifndef PS_CLUSTER_OPS_TABLE_BUCKET_INDEX_H_
#define PS_CLUSTER_OPS_TABLE_BUCKET_INDEX_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "ops/cc/table/arena.h"
#include "ops/cc/table/prefetch.h"

namespace ps_cluster {

constexpr int kBucketSlots = 12;

struct alignas(64) Bucket {
  uint8_t tags[kBucketSlots];  // 0: the slot is empty
  uint16_t passed;             // entries that belong here or before and lie behind; 0 ends a search
  uint16_t unused;
  uint32_t refs[kBucketSlots];

  // Bit i: slot i has this tag.
  uint32_t Match(uint8_t tag) const {
#if defined(__SSE2__)
    const __m128i line = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(line, _mm_set1_epi8(static_cast<char>(tag)))) & 0xfff;
#else
    uint32_t mask = 0;
    for (int i = 0; i < kBucketSlots; ++i) mask |= uint32_t{tags[i] == tag} << i;
    return mask;
#endif
  }
};
static_assert(sizeof(Bucket) == 64, "a bucket is one cache line");

// Of a 64-bit hash the lowest 8 bits give the tag and the 32 above them the bucket; the topmost 24 are free for the
// choice of the sub-table. Changes need the sub-table's latch. `HomeOf`, `Match` and `GuessBeside` may run beside them
// and then give any references, without ever leaving the index's memory.
class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  BucketIndex();
  ~BucketIndex();
  BucketIndex(const BucketIndex&) = delete;
  BucketIndex& operator=(const BucketIndex&) = delete;
  void Init(Arena* arena);

  int64_t bytes() const { return int64_t{buckets_} * 64; }
  bool full() const { return size_ >= limit_; }
  int64_t size() const { return size_; }

  // Where the search for a hash begins.
  const Bucket* HomeOf(uint64_t hash) const { return HomeOf(hash, chunk_shift_); }
  // With `ChunkShift` of the arena's units, for who looks into many of its indices.
  const Bucket* HomeOf(uint64_t hash, int chunk_shift) const {
    const Directory* directory = directory_.load(std::memory_order_acquire);
    return directory->At(Home(hash, directory->buckets), chunk_shift);
  }
  static int ChunkShift(int64_t unit_bytes) {
    return 63 - __builtin_clzll(static_cast<uint64_t>(unit_bytes) / sizeof(Bucket));
  }
  // The first reference in a bucket that may be the key's, or kNone, and then whether it may lie in another one.
  static uint32_t Match(const Bucket* bucket, uint64_t hash, bool* elsewhere) {
    const uint32_t mask = bucket->Match(Tag(hash));
    *elsewhere = bucket->passed != 0;
    return mask != 0 ? bucket->refs[__builtin_ctz(mask)] : kNone;
  }

  // guess(ref) for the references that may be the key's, until one is refused. Whether these are all of them.
  template <class Guess>
  bool GuessBeside(uint64_t hash, const Guess& guess) const {
    const uint8_t tag = Tag(hash);
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    uint32_t b = Home(hash, directory->buckets);
    for (int bucket_number = 0; bucket_number < kMostBuckets; ++bucket_number) {
      const Bucket* const bucket = directory->At(b, chunk_shift_);
      for (uint32_t mask = bucket->Match(tag); mask != 0; mask &= mask - 1) {
        if (!guess(bucket->refs[__builtin_ctz(mask)])) return false;
      }
      if (bucket->passed == 0) return true;
      b = b + 1 >= directory->buckets ? 0 : b + 1;
    }
    return false;
  }

  // guess(ref) for every reference that may be the key's.
  template <class Guess>
  void ForEachGuess(uint64_t hash, const Guess& guess) const {
    Find(hash, [&guess](uint32_t ref) {
      guess(ref);
      return false;
    });
  }

  // The reference for which `is_it(ref)` is true, or kNone.
  template <class IsIt>
  uint32_t Find(uint64_t hash, const IsIt& is_it) const {
    const uint8_t tag = Tag(hash);
    for (uint32_t b = Home(hash, buckets_);; b = Next(b)) {
      const Bucket* bucket = At(b);
      for (uint32_t mask = bucket->Match(tag); mask != 0; mask &= mask - 1) {
        const uint32_t ref = bucket->refs[__builtin_ctz(mask)];
        if (is_it(ref)) return ref;
      }
      if (bucket->passed == 0) return kNone;
    }
  }

  void Insert(uint64_t hash, uint32_t ref);  // must not be full
  void Erase(uint64_t hash, uint32_t ref);   // must be there
  void Replace(uint64_t hash, uint32_t ref, uint32_t by);

  // Growth: `bytes_to_grow()` more will be held after `Grow(all entries)`.
  int64_t bytes_to_grow() const { return NextBuckets() * int64_t{64} - bytes(); }
  void Grow(const std::vector<std::pair<uint64_t, uint32_t>>& entries);
  void Clear();

 private:
  // The chunks of an index of one size; never changed once it is seen.
  struct Directory {
    uint32_t buckets = 0;
    Bucket* chunks[1];  // as many as there are

    Bucket* At(uint32_t b, int chunk_shift) const {
      return chunks[b >> chunk_shift] + (b & ((uint32_t{1} << chunk_shift) - 1));
    }
  };
  static Directory empty_directory_;  // one bucket that stays empty
  static constexpr int kMostBuckets = 8;  // of a search beside changes, which may make it go in circles

  static uint8_t Tag(uint64_t hash) {
    const uint8_t tag = static_cast<uint8_t>(hash);
    return tag + (tag == 0);
  }
  static uint32_t Home(uint64_t hash, uint32_t buckets) {
    return static_cast<uint32_t>(((hash >> 8 & 0xffffffff) * buckets) >> 32);
  }
  uint32_t Next(uint32_t b) const { return b + 1 >= buckets_ ? 0 : b + 1; }
  Bucket* At(uint32_t b) const { return directory_.load(std::memory_order_relaxed)->At(b, chunk_shift_); }
  uint32_t unit() const { return uint32_t{1} << chunk_shift_; }
  uint32_t NextBuckets() const;
  void Publish(const std::vector<Bucket*>& chunks, uint32_t buckets);
  void Retire(Directory* directory);
  std::vector<Bucket*> Chunks() const;
  void Release();

  std::atomic<Directory*> directory_;
  uint32_t buckets_ = 0;
  int chunk_shift_ = 0;  // buckets of a unit of the arena
  int64_t size_ = 0;
  int64_t limit_ = 0;
  Arena* arena_ = nullptr;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BUCKET_INDEX_H_
