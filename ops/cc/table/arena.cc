#include "ops/cc/table/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace ps_cluster {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLargestBlock = int64_t{256} << 20;

}  // namespace

Arena::~Arena() {
  for (const auto& [block, bytes] : blocks_) munmap(block, bytes);
}

char* Arena::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  char* unit;
  if (!free_.empty()) {
    unit = free_.back();
    free_.pop_back();
  } else {
    if (next_ == end_) Map();
    unit = next_;
    next_ += unit_bytes_;
  }
  ++taken_;
  return unit;
}

void Arena::Give(char* unit) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(unit);
  if (--taken_ > 0) return;
  for (const auto& [block, bytes] : blocks_) madvise(block, bytes, MADV_DONTNEED);
}

void Arena::Map() {
  // A block is touched from its start on, so that its size costs addresses only; few blocks keep the kernel's list of
  // mappings short.
  const int64_t wanted = std::min(std::max(mapped_bytes_ / 8, kHugePage), kLargestBlock);
  const int64_t bytes = (wanted + kHugePage - 1) / kHugePage * kHugePage;
  void* mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const start = static_cast<char*>(mapped);
  const int64_t past = reinterpret_cast<uintptr_t>(start) % kHugePage;
  char* const block = past == 0 ? start : start + (kHugePage - past);
  if (block != start) munmap(start, block - start);
  const int64_t behind = kHugePage - (block - start);
  if (behind > 0) munmap(block + bytes, behind);
  madvise(block, bytes, MADV_HUGEPAGE);  // refused by some kernels: slower, not wrong
  blocks_.emplace_back(block, bytes);
  mapped_bytes_ += bytes;
  next_ = block;
  end_ = block + bytes;
}

}  // namespace ps_cluster
