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

// What the walk fetches.
struct Walk {
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

// work(sub_table, item) for every item, under its sub-table's latch. Items pass three places one by one: at the first
// their bucket is asked for, at the second their row and, by ahead(item), what else the work reads, at the third they
// are worked on; so the memory always has lines to bring. Latches are taken in the
// order of sub-tables, for the items between the first place and the third.
template <class Ahead, class Work>
[[gnu::always_inline]] inline void WalkItems(SubTable* subs, const SlabShape* shapes, const BatchItem* begin,
                                             const BatchItem* end, const Walk& walk, const Ahead& ahead,
                                             const Work& work) {
  constexpr int64_t kBucketsAhead = 24;
  constexpr int64_t kRowsAhead = 24;
  HeldLatches latches(subs, begin);
  const int64_t n = end - begin;
  for (int64_t i = 0; i < n + kBucketsAhead + kRowsAhead; ++i) {
    if (i < n) {
      latches.Take(begin + i);
      SubTable& sub = subs[begin[i].sub];
      if (walk.changes) sub.Sync();
      sub.Seek(begin[i].hash);
    }
    const int64_t second = i - kBucketsAhead;
    if (second >= 0 && second < n) {
      const BatchItem& item = begin[second];
      subs[item.sub].PrefetchRows(shapes, item.hash, walk.lines, walk.changes);
      ahead(item);
    }
    const int64_t third = second - kRowsAhead;
    if (third >= 0) {
      work(&subs[begin[third].sub], begin[third]);
      latches.LetGo(begin + third + 1);
    }
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BATCH_H_
