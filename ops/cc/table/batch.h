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

// What the walk fetches.
struct Walk {
  int lines = 1;         // of a row
  bool changes = false;  // the rows will be written
  bool bits = false;     // and each of them marked as changed
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

// work(sub_table, item, look(sub_table, item)) for every item, under its sub-table's latch. Items move on in groups:
// their buckets on the way; their rows and, by ahead(item), what else the work reads on the way; looked at; worked on.
// So the memory always has lines to bring, and looks wait for theirs together. Latches are taken in the order of
// sub-tables, for the items of these three groups.
template <class Ahead, class Look, class Work>
[[gnu::always_inline]] inline void WalkItems(SubTable* subs, const SlabShape* shapes, const BatchItem* begin,
                                             const BatchItem* end, const Walk& walk, const Ahead& ahead,
                                             const Look& look, const Work& work) {
  HeldLatches latches(subs, begin);
  const auto seek = [&](const BatchItem* from, const BatchItem* to) {
    PrefetchList<kPrefetchGroup> buckets;
    for (const BatchItem* item = from; item != to; ++item) {
      latches.Take(item);
      SubTable& sub = subs[item->sub];
      if (walk.changes) sub.Sync();
      buckets.Add(sub.Home(item->hash));
    }
    buckets.Ask();
  };
  // The rows' first lines, which find their pages. The others follow while the group before is worked on: so many at
  // once would only wait for one another.
  PrefetchList<kPrefetchGroup> rows;
  const auto fetch = [&](const BatchItem* from, const BatchItem* to) {
    PrefetchList<kPrefetchGroup> bits;
    rows.Clear();
    for (const BatchItem* item = from; item != to; ++item) {
      subs[item->sub].ForEachRowGuess(shapes, item->hash, [&](const void* row, const void* its_bits) {
        rows.Add(row);
        bits.Add(its_bits);
      });
    }
    rows.Ask();
    if (walk.bits) bits.Ask();
  };
  const int64_t n = end - begin;
  const int64_t num_groups = (n + kPrefetchGroup - 1) / kPrefetchGroup;
  const auto at = [&](int64_t group) { return begin + std::min(n, group * kPrefetchGroup); };
  for (int64_t g = 0; g < num_groups + 2; ++g) {
    if (g < num_groups) seek(at(g), at(g + 1));
    if (g < 1) continue;
    fetch(at(g - 1), at(g));
    const BatchItem* next = at(g - 1);
    const BatchItem* item = g < 2 ? next : at(g - 2);
    decltype(look(subs, *item)) seen[kPrefetchGroup];
    for (int i = 0; i < next - item; ++i) seen[i] = look(&subs[item[i].sub], item[i]);
    for (int i = 0; i < kPrefetchGroup; ++i) {
      rows.AskRest(i, walk.lines);
      if (next + i < at(g)) ahead(next[i]);
      if (item + i >= next) continue;
      work(&subs[item[i].sub], item[i], seen[i]);
      latches.LetGo(item + i + 1);
    }
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_BATCH_H_
