#include "ops/cc/table/batch.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace ps_cluster {
namespace {

// Memory of the thread's last batch. It is moved out while in use, so that a call within a call has its own.
thread_local std::vector<BatchItem> spare_items;

constexpr int64_t kMostKeys = int64_t{1} << 31;

}  // namespace

Batch::Batch(const TableRules& rules, const int64_t* keys, int64_t n) : items_(std::move(spare_items)) {
  if (n > kMostKeys) throw std::invalid_argument("keys: expected at most 2^31 in a call, found " + std::to_string(n));
  if (static_cast<int64_t>(items_.size()) < n) items_.resize(n);
  const int subs = rules.num_sub_tables();
  starts_.assign(subs + 2, 0);
  // Counts two places on, so that the second walk moves each count to where the next sub-table starts.
  for (int64_t i = 0; i < n; ++i) ++starts_[rules.placement().Of(keys[i]).sub + 2];
  for (int s = 2; s < subs + 2; ++s) starts_[s] += starts_[s - 1];
  for (int64_t i = 0; i < n; ++i) {
    const Place place = rules.placement().Of(keys[i]);
    items_[starts_[place.sub + 1]++] = BatchItem{place.hash, keys[i], static_cast<uint32_t>(i), place.sub};
  }
}

Batch::~Batch() { spare_items = std::move(items_); }

}  // namespace ps_cluster
