// Keys of a call in the order of their sub-tables, and the walk over them that hides the latency of memory.
#ifndef PS_CLUSTER_OPS_TABLE_BATCH_H_
#define PS_CLUSTER_OPS_TABLE_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/cc/table/prefetch.h"
#include "ops/cc/table/sub_table.h"
#include "ops/cc/table/table_rules.h"

namespace ps_cluster {

struct BatchItem {
  uint64_t hash;
  int64_t key;
  uint32_t position;  // in the call
  uint32_t sub;
};

// Items of one sub-table are neighbours, in the order of the call.
class Batch {
 public:
  Batch(const TableRules& rules, const int64_t* keys, int64_t n);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Of the sub-tables [from, to).
  const BatchItem* begin(int64_t from) const { return items_.data() + starts_[from]; }
  const BatchItem* end(int64_t to) const { return items_.data() + starts_[to]; }

 private:
  std::vector<BatchItem> items_;
  std::vector<uint32_t> starts_;
};

// How far the walk is ahead of itself, and what it fetches.
struct Walk {
  int ahead = 16;        // items between asking for a line and using it
  int lines = 1;         // of a row
  bool changes = false;  // the rows will be written
  // What the caller reads or writes for an item, of `side_bytes` at `side + position * side_bytes`: the order of
  // sub-tables makes it as random as the rows.
  const char* side = nullptr;
  int64_t side_bytes = 0;

  void PrefetchSide(const BatchItem& item) const {
    const char* const at = side + item.position * side_bytes;
    for (int64_t byte = 0; byte < side_bytes; byte += 64) Prefetch(at + byte);
  }
};

// Latches taken for items that lie behind one another; let go in the same order, at the latest by the destructor.
class HeldLatches {
 public:
  HeldLatches(SubTable* subs, const BatchItem* begin) : subs_(subs), begin_(begin), taken_(begin), let_go_(begin) {}
  ~HeldLatches() { LetGo(taken_); }

  void Take(const BatchItem* item) {
    if (item == begin_ || item->sub != item[-1].sub) subs_[item->sub].latch.lock();
    taken_ = item + 1;
  }
  void LetGo(const BatchItem* until) {
    for (; let_go_ != until; ++let_go_) {
      if (let_go_ + 1 == taken_ || let_go_[1].sub != let_go_->sub) subs_[let_go_->sub].latch.unlock();
    }
  }

 private:
  SubTable* const subs_;
  const BatchItem* const begin_;
  const BatchItem* taken_;
  const BatchItem* let_go_;
};

// work(sub_table, item) for every item, under its sub-table's latch. What leads to a row is asked for one step after
// the other, each `ahead` items before the next needs it: the place of the index line, the line, the place of the
// row, the row. Latches are taken in the order of sub-tables, for four times `ahead` items at most.
template <class Work>
void WalkItems(SubTable* subs, const BatchItem* begin, const BatchItem* end, const Walk& walk, const Work& work) {
  HeldLatches latches(subs, begin);
  const int64_t n = end - begin, ahead = walk.ahead;
  // step(sub_table, item) for item `i`, if there is one.
  const auto at = [&](int64_t i, const auto& step) {
    if (i >= 0 && i < n) step(&subs[begin[i].sub], begin[i]);
  };
  for (int64_t i = -4 * ahead; i < n; ++i) {
    if (i + 6 * ahead < n) Prefetch(&subs[begin[i + 6 * ahead].sub]);
    at(i + 4 * ahead, [&](SubTable* sub, const BatchItem& item) {
      latches.Take(&item);
      if (walk.changes) sub->Sync();
      sub->PrefetchIndexPlace(item.hash);
    });
    at(i + 3 * ahead, [&](SubTable* sub, const BatchItem& item) { sub->PrefetchIndex(item.hash); });
    at(i + 2 * ahead, [&](SubTable* sub, const BatchItem& item) { sub->PrefetchRowPlace(item.hash); });
    at(i + ahead, [&](SubTable* sub, const BatchItem& item) {
      sub->PrefetchRow(item.hash, walk.lines, walk.changes);
      walk.PrefetchSide(item);
    });
    if (i < 0) continue;
    work(&subs[begin[i].sub], begin[i]);
    latches.LetGo(begin + i + 1);
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BATCH_H_
