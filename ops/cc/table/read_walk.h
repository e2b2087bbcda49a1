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
// Keys move on in groups: their buckets on the way, their rows on the way, copied. Copies of the two functions are used,
// and all is compiled into the caller, so that what they hold stays in registers: a key takes little more than the
// memory does.
template <class Copy, class Done>
[[gnu::always_inline]] inline void ReadUnlatched(TableCore* core, const int64_t* keys, int64_t n, int lines, Copy copy,
                                                 Done done, std::vector<int64_t>* left) {
  struct Key {
    uint64_t hash;
    const SubTable* sub;
    Latch::Version version;
    int row_class;  // -1: left over
  };
  // What one group asks for.
  struct Group {
    Key keys[kPrefetchGroup];
    const Bucket* buckets[kPrefetchGroup];
    const char* rows[kPrefetchGroup];  // null: absent, or left over
  };
  Group groups[3];
  const TableRules& rules = core->rules();
  const SubTable* const subs = core->subs.data();
  const SlabShape* const shapes = core->shared.shapes;
  const Readers::Inside inside(&core->shared.arena.readers());

  const auto seek = [&](Group* group, int64_t first, int count) {
    for (int i = 0; i < count; ++i) {
      Key& key = group->keys[i];
      const Place place = rules.PlaceOf(keys[first + i]);
      key.hash = place.hash;
      key.sub = &subs[place.sub];
      key.version = key.sub->latch.Begin();
      group->buckets[i] = key.sub->Home(place.hash);
    }
    for (int i = 0; i < count; ++i) Prefetch(group->buckets[i]);
  };
  const auto match = [&](Group* group, int count) {
    PrefetchList<kPrefetchGroup> rows;
    for (int i = 0; i < count; ++i) {
      Key& key = group->keys[i];
      bool elsewhere;
      const uint32_t ref = BucketIndex::Match(group->buckets[i], key.hash, &elsewhere);
      group->rows[i] = nullptr;
      key.row_class = ref == SubTable::kNone && !elsewhere ? 0 : -1;
      if (Latch::Held(key.version) || !key.sub->latch.Unchanged(key.version)) {
        key.row_class = -1;
      } else if (ref != SubTable::kNone) {
        const int row_class = SubTable::ClassOf(ref);
        const char* const row = key.sub->RowOf(shapes[row_class], ref);
        if (key.sub->latch.Unchanged(key.version)) {
          group->rows[i] = row;
          key.row_class = row_class;
          rows.Add(row);
        }
      } else if (elsewhere) {
        Prefetch(group->buckets[i] + 1);  // for later
      }
    }
    rows.Ask();
    for (int i = 0; i < count; ++i) rows.AskRest(i, lines);
  };
  const auto read = [&](const Group& group, int64_t first, int count) {
    for (int i = 0; i < count; ++i) {
      const Key& key = group.keys[i];
      const char* const row = group.rows[i];
      const int64_t position = first + i;
      bool there = false;
      bool good = key.row_class >= 0;
      if (row != nullptr) {
        good = HeaderOf(row)->key == keys[position];
        if (good) there = copy(position, key.row_class, row);
        good = good && key.sub->latch.Unchanged(key.version);
      }
      if (__builtin_expect(good, 1)) {
        done(position, there);
      } else {
        left->push_back(position);
      }
    }
  };

  const int64_t num_groups = (n + kPrefetchGroup - 1) / kPrefetchGroup;
  const auto first_of = [](int64_t g) { return g * kPrefetchGroup; };
  const auto count_of = [&](int64_t g) { return static_cast<int>(std::min<int64_t>(kPrefetchGroup, n - first_of(g))); };
  for (int64_t g = 0; g < num_groups + 2; ++g) {
    if (g < num_groups) seek(&groups[g % 3], first_of(g), count_of(g));
    if (g >= 1 && g - 1 < num_groups) match(&groups[(g - 1) % 3], count_of(g - 1));
    if (g >= 2) read(groups[(g - 2) % 3], first_of(g - 2), count_of(g - 2));
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_READ_WALK_H_
