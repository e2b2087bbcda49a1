// Look-ups in the order of the call, without latches.
#ifndef PS_CLUSTER_OPS_TABLE_READ_WALK_H_
#define PS_CLUSTER_OPS_TABLE_READ_WALK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/cc/table/prefetch.h"
#include "ops/cc/table/readers.h"
#include "ops/cc/table/sub_table.h"
#include "ops/cc/table/table_core.h"

namespace ps_cluster {

// copy(position, row_class, row) for each key that has a row (or a count: class 0), then done(position, there) with
// what it returned; done(position, false) for a key that is absent. What `copy` reads may be half written; then the
// position is put into `left` instead. So is one whose bucket did not tell where the row is, and one whose sub-table
// was being changed. `lines`: of a row that are asked for before it is copied.
//
// A key is in one of three states at a time: its bucket on the way, its row on the way, or copied. Keys move on one by
// one, so that the memory always has as many lines to bring as it can. Copies of the two functions are used, and all is
// compiled into the caller, so that what they hold stays in registers: a key takes little more than the memory does.
template <class Copy, class Done>
[[gnu::always_inline]] inline void ReadUnlatched(TableCore* core, const int64_t* keys, int64_t n, int lines, Copy copy,
                                                 Done done, std::vector<int64_t>* left) {
  constexpr int64_t kBucketsAhead = 24;
  constexpr uint64_t kRing = 64;
  // So many lines are on the way at once.
  const int64_t rows_ahead = std::clamp(64 / lines, 8, 32);
  struct Key {
    uint64_t hash;
    const SubTable* sub;
    const Bucket* bucket;
    const char* row;  // null: absent, or left over
    Latch::Version version;
    int row_class;  // -1: left over
  };
  Key ring[kRing];
  const TableRules& rules = core->rules();
  const SubTable* const subs = core->subs.data();
  const SlabShape* const shapes = core->shared.shapes;
  const Readers::Inside inside(&core->shared.arena.readers());
  for (int64_t i = 0; i < n + kBucketsAhead + rows_ahead; ++i) {
    if (i < n) {
      Key& key = ring[static_cast<uint64_t>(i) % kRing];
      const Place place = rules.PlaceOf(keys[i]);
      key.hash = place.hash;
      key.sub = &subs[place.sub];
      key.version = key.sub->latch.Begin();
      key.bucket = key.sub->Seek(place.hash);
    }
    const int64_t second = i - kBucketsAhead;
    if (second >= 0 && second < n) {
      Key& key = ring[static_cast<uint64_t>(second) % kRing];
      bool elsewhere;
      const uint32_t ref = BucketIndex::Match(key.bucket, key.hash, &elsewhere);
      key.row = nullptr;
      key.row_class = ref == SubTable::kNone && !elsewhere ? 0 : -1;
      if (Latch::Held(key.version) || !key.sub->latch.Unchanged(key.version)) {
        key.row_class = -1;
      } else if (ref != SubTable::kNone) {
        const int row_class = SubTable::ClassOf(ref);
        const char* const row = key.sub->RowOf(shapes[row_class], ref);
        if (key.sub->latch.Unchanged(key.version)) {
          key.row = row;
          key.row_class = row_class;
          Prefetch(row);
          for (int line = 1; line < lines; ++line) Prefetch(row + 64 * line);
        }
      } else if (elsewhere) {
        Prefetch(key.bucket + 1);  // for later
      }
    }
    const int64_t third = second - rows_ahead;
    if (third >= 0) {
      const Key& key = ring[static_cast<uint64_t>(third) % kRing];
      bool there = false;
      bool good = key.row_class >= 0;
      if (key.row != nullptr) {
        good = HeaderOf(key.row)->key == keys[third];
        if (good) there = copy(third, key.row_class, key.row);
        good = good && key.sub->latch.Unchanged(key.version);
      }
      if (__builtin_expect(good, 1)) {
        done(third, there);
      } else {
        left->push_back(third);
      }
    }
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_READ_WALK_H_
