// Keys of a call in the order of their sub-tables, and the walk over them that hides the latency of memory.
#ifndef PS_CLUSTER_OPS_TABLE_BATCH_H_
#define PS_CLUSTER_OPS_TABLE_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

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
  int run = 16;          // items whose lines are asked for together
  int lines = 1;         // of a row
  bool changes = false;  // the rows will be written
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

// work(sub_table, item) for every item, under its sub-table's latch. While a run of items is worked on, the rows of the
// next and the index lines of the one after are on their way; asked for in bursts, they are waited for together.
// Latches are taken in the order of sub-tables, for the items of three runs.
template <class Work>
void WalkItems(SubTable* subs, const BatchItem* begin, const BatchItem* end, const Walk& walk, const Work& work) {
  HeldLatches latches(subs, begin);
  const BatchItem* taken = begin;
  const BatchItem* fetched = begin;
  const auto behind = [end, &walk](const BatchItem* item) { return end - item < walk.run ? end : item + walk.run; };
  const auto take = [&](const BatchItem* to) {
    for (; taken != to; ++taken) {
      latches.Take(taken);
      SubTable& sub = subs[taken->sub];
      if (walk.changes) sub.Sync();
      sub.Seek(taken->hash);
    }
  };
  const auto fetch = [&](const BatchItem* to) {
    for (; fetched != to; ++fetched) subs[fetched->sub].PrefetchRows(fetched->hash, walk.lines, walk.changes);
  };
  take(behind(begin));
  fetch(taken);
  take(behind(taken));
  for (const BatchItem* item = begin; item != end;) {
    const BatchItem* const last = fetched;
    fetch(taken);
    take(behind(taken));
    for (; item != last; ++item) work(&subs[item->sub], *item);
    latches.LetGo(item);
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BATCH_H_
