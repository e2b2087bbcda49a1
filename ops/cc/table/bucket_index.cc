#include "ops/cc/table/bucket_index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ps_cluster {
namespace {

// Share of slots in use beyond which an index grows.
constexpr double kLoad = 0.85;
constexpr double kGrowth = 1.25;

alignas(64) Bucket empty_bucket = {};
Bucket* empty_chunks[] = {&empty_bucket};

int Log2(int64_t n) { return 63 - __builtin_clzll(static_cast<uint64_t>(n)); }

}  // namespace

BucketIndex::BucketIndex() : chunks_(empty_chunks) {}

void BucketIndex::Init(Arena* arena) {
  arena_ = arena;
  chunk_shift_ = Log2(arena->unit_bytes() / static_cast<int64_t>(sizeof(Bucket)));
  chunk_mask_ = (uint32_t{1} << chunk_shift_) - 1;
}

void BucketIndex::Insert(uint64_t hash, uint32_t ref) {
  for (uint32_t b = Home(hash);; b = Next(b)) {
    Bucket* bucket = At(b);
    const uint32_t empty = bucket->Match(0);
    if (empty != 0) {
      const int slot = __builtin_ctz(empty);
      bucket->tags[slot] = Tag(hash);
      bucket->refs[slot] = ref;
      ++size_;
      return;
    }
    ++bucket->passed;
  }
}

void BucketIndex::Erase(uint64_t hash, uint32_t ref) {
  for (uint32_t b = Home(hash);; b = Next(b)) {
    Bucket* bucket = At(b);
    for (uint32_t mask = bucket->Match(Tag(hash)); mask != 0; mask &= mask - 1) {
      const int slot = __builtin_ctz(mask);
      if (bucket->refs[slot] != ref) continue;
      bucket->tags[slot] = 0;
      --size_;
      return;
    }
    --bucket->passed;
  }
}

void BucketIndex::Replace(uint64_t hash, uint32_t ref, uint32_t by) {
  for (uint32_t b = Home(hash);; b = Next(b)) {
    Bucket* bucket = At(b);
    for (uint32_t mask = bucket->Match(Tag(hash)); mask != 0; mask &= mask - 1) {
      uint32_t& found = bucket->refs[__builtin_ctz(mask)];
      if (found != ref) continue;
      found = by;
      return;
    }
  }
}

uint32_t BucketIndex::NextBuckets() const {
  const uint32_t unit = chunk_mask_ + 1;
  if (buckets_ < unit / 4) return std::max<uint32_t>(1, buckets_ * 2);
  const uint32_t wanted = static_cast<uint32_t>(buckets_ * kGrowth) + 1;
  return wanted < unit ? wanted : (wanted + unit - 1) / unit * unit;
}

void BucketIndex::Grow(const std::vector<std::pair<uint64_t, uint32_t>>& entries) {
  const uint32_t unit = chunk_mask_ + 1;
  const uint32_t wanted = NextBuckets();
  if (wanted < unit) {
    void* memory = std::aligned_alloc(sizeof(Bucket), wanted * sizeof(Bucket));
    if (memory == nullptr) throw std::bad_alloc();
    Release();
    list_.assign(1, static_cast<Bucket*>(memory));
  } else {
    list_.reserve(wanted >> chunk_shift_);
    if (buckets_ < unit) Release();
    // The units that are there stay: never are an old and a new index alive together.
    while (list_.size() < wanted >> chunk_shift_) {
      list_.push_back(reinterpret_cast<Bucket*>(arena_->Take()));
      buckets_ = static_cast<uint32_t>(list_.size()) << chunk_shift_;
    }
  }
  buckets_ = wanted;
  chunks_ = list_.data();
  for (uint32_t b = 0; b < buckets_; b += unit) {
    std::memset(static_cast<void*>(At(b)), 0, std::min(unit, buckets_ - b) * sizeof(Bucket));
  }
  size_ = 0;
  limit_ = std::max<int64_t>(1, static_cast<int64_t>(buckets_ * double{kBucketSlots} * kLoad));
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kAhead < entries.size()) Prefetch(entries[i + kAhead].first);
    Insert(entries[i].first, entries[i].second);
  }
}

void BucketIndex::Clear() {
  Release();
  buckets_ = 0;
  size_ = limit_ = 0;
}

void BucketIndex::Release() {
  const uint32_t unit = chunk_mask_ + 1;
  for (Bucket* chunk : list_) {
    if (buckets_ < unit) {
      std::free(chunk);
    } else {
      arena_->Give(reinterpret_cast<char*>(chunk));
    }
  }
  list_.clear();
  buckets_ = 0;
  chunks_ = empty_chunks;
}

}  // namespace ps_cluster
