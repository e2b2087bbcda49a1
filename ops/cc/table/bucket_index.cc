#include "ops/cc/table/bucket_index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ps_cluster {
namespace {

// Share of slots in use beyond which an index grows.
constexpr double kLoad = 0.65;
constexpr double kGrowth = 1.25;

alignas(64) Bucket empty_bucket = {};

}  // namespace

BucketIndex::Directory BucketIndex::empty_directory_ = {0, {&empty_bucket}};

BucketIndex::BucketIndex() : directory_(&empty_directory_) {}

BucketIndex::~BucketIndex() { Release(); }

void BucketIndex::Init(Arena* arena) {
  arena_ = arena;
  chunk_shift_ = ChunkShift(arena->unit_bytes());
}

void BucketIndex::Insert(uint64_t hash, uint32_t ref) {
  for (uint32_t b = Home(hash, buckets_);; b = Next(b)) {
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
  for (uint32_t b = Home(hash, buckets_);; b = Next(b)) {
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
  for (uint32_t b = Home(hash, buckets_);; b = Next(b)) {
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
  const uint32_t unit = this->unit();
  if (buckets_ < unit / 4) return std::max<uint32_t>(1, buckets_ * 2);
  const uint32_t wanted = static_cast<uint32_t>(buckets_ * kGrowth) + 1;
  return wanted < unit ? wanted : (wanted + unit - 1) / unit * unit;
}

void BucketIndex::Grow(const std::vector<std::pair<uint64_t, uint32_t>>& entries) {
  const uint32_t unit = this->unit();
  const uint32_t wanted = NextBuckets();
  const bool keeps = buckets_ >= unit;
  std::vector<Bucket*> chunks;
  if (wanted < unit) {
    void* memory = std::aligned_alloc(sizeof(Bucket), wanted * sizeof(Bucket));
    if (memory == nullptr) throw std::bad_alloc();
    chunks.push_back(static_cast<Bucket*>(memory));
  } else {
    // The units that are there stay: never are an old and a new index alive together.
    if (keeps) chunks = Chunks();
    const size_t kept = chunks.size();
    chunks.reserve(wanted >> chunk_shift_);
    try {
      while (chunks.size() < wanted >> chunk_shift_) chunks.push_back(reinterpret_cast<Bucket*>(arena_->Take()));
    } catch (const std::bad_alloc&) {
      for (size_t i = kept; i < chunks.size(); ++i) arena_->Give(reinterpret_cast<char*>(chunks[i]));
      throw;
    }
  }
  Directory* const before = directory_.load(std::memory_order_relaxed);
  Publish(chunks, wanted);
  if (!keeps && before != &empty_directory_) arena_->readers().Retire(before->chunks[0]);
  Retire(before);
  for (uint32_t b = 0; b < buckets_; b += unit) {
    std::memset(static_cast<void*>(At(b)), 0, std::min(unit, buckets_ - b) * sizeof(Bucket));
  }
  size_ = 0;
  limit_ = std::max<int64_t>(1, static_cast<int64_t>(buckets_ * double{kBucketSlots} * kLoad));
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kAhead < entries.size()) Prefetch(HomeOf(entries[i + kAhead].first));
    Insert(entries[i].first, entries[i].second);
  }
}

void BucketIndex::Publish(const std::vector<Bucket*>& chunks, uint32_t buckets) {
  void* memory = std::malloc(sizeof(Directory) + chunks.size() * sizeof(Bucket*));
  if (memory == nullptr) throw std::bad_alloc();
  Directory* const directory = new (memory) Directory;
  directory->buckets = buckets;
  std::copy(chunks.begin(), chunks.end(), directory->chunks);
  buckets_ = buckets;
  directory_.store(directory, std::memory_order_release);
}

void BucketIndex::Retire(Directory* directory) {
  if (directory != &empty_directory_) arena_->readers().Retire(directory);
}

std::vector<Bucket*> BucketIndex::Chunks() const {
  const Directory* const directory = directory_.load(std::memory_order_relaxed);
  const uint32_t chunks = (buckets_ + unit() - 1) >> chunk_shift_;
  return std::vector<Bucket*>(directory->chunks, directory->chunks + chunks);
}

void BucketIndex::Clear() {
  Release();
  size_ = limit_ = 0;
}

void BucketIndex::Release() {
  Directory* const before = directory_.load(std::memory_order_relaxed);
  const std::vector<Bucket*> chunks = Chunks();
  const bool from_arena = buckets_ >= unit();
  directory_.store(&empty_directory_, std::memory_order_release);
  buckets_ = 0;
  for (Bucket* chunk : chunks) {
    if (from_arena) {
      arena_->Give(reinterpret_cast<char*>(chunk));
    } else {
      arena_->readers().Retire(chunk);
    }
  }
  Retire(before);
}

}  // namespace ps_cluster
