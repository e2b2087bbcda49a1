#include "ops/rankmixer/block/scratch.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ps_cluster {
namespace rankmixer {

Scratch& Scratch::OfThread(Use use) {
  thread_local Scratch scratches[kUses];
  return scratches[use];
}

Scratch::~Scratch() { std::free(data_); }

void* Scratch::Get(int64_t bytes) {
  if (bytes <= bytes_) return data_;
  constexpr int64_t kLargePage = 2 << 20;
  const int64_t unit = bytes >= kLargePage ? kLargePage : 4096;
  const int64_t rounded = (bytes + unit - 1) / unit * unit;
  std::free(data_);
  bytes_ = 0;
  data_ = std::aligned_alloc(static_cast<size_t>(unit), static_cast<size_t>(rounded));
  if (data_ == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (unit == kLargePage) madvise(data_, static_cast<size_t>(rounded), MADV_HUGEPAGE);
#endif
  bytes_ = rounded;
  return data_;
}

}  // namespace rankmixer
}  // namespace ps_cluster
