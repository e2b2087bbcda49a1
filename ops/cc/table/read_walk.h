// Look-ups in the order of the call, without latches.
#ifndef PS_CLUSTER_OPS_TABLE_READ_WALK_H_
#define PS_CLUSTER_OPS_TABLE_READ_WALK_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/cc/table/prefetch.h"
#include "ops/cc/table/readers.h"
#include "ops/cc/table/sub_table.h"
#include "ops/cc/table/table_core.h"

namespace ps_cluster {

// What does not change during a call.
struct ReadView {
  ReadView(const TableCore& core, const int64_t* keys, int lines)
      : keys(keys),
        lines(lines),
        placement(core.rules().placement()),
        subs(core.subs.data()),
        shapes(core.shared.shapes),
        chunk_shift(BucketIndex::ChunkShift(core.rules().unit_bytes())),
        widest(core.rules().layout().widest()),
        widest_shape(shapes[widest]) {}

  const int64_t* keys;
  int lines;  // of a row that are asked for before it is copied
  Placement placement;
  const SubTable* subs;
  const SlabShape* shapes;  // by row class
  int chunk_shift;  // of all indices
  int widest;
  SlabShape widest_shape;
};

// Keys that move on together.
struct ReadGroup {
  static constexpr int kAbsent = -1, kUnclear = -2;

  const SubTable* subs[kPrefetchGroup];
  const Bucket* buckets[kPrefetchGroup];
  const char* rows[kPrefetchGroup];  // where there is none, any place that may be asked for
  uint64_t hashes[kPrefetchGroup];
  Latch::Version versions[kPrefetchGroup];
  int classes[kPrefetchGroup];
};

// The even version of a latch that is held is none that it will ever have.
inline Latch::Version VersionNow(const SubTable& sub) { return sub.latch.Begin() & ~Latch::Version{1}; }

// `count`: an int, or where the group is whole a constant, which takes the loops apart.
template <class Count>
[[gnu::always_inline]] inline void SeekBuckets(const ReadView& view, int64_t first, Count count, ReadGroup* group) {
  for (int i = 0; i < count; ++i) {
    const Place place = view.placement.Of(view.keys[first + i]);
    const SubTable& sub = view.subs[place.sub];
    group->hashes[i] = place.hash;
    group->subs[i] = &sub;
    group->versions[i] = VersionNow(sub);
    group->buckets[i] = sub.Home(place.hash, view.chunk_shift);
  }
  for (int i = 0; i < count; ++i) Prefetch(group->buckets[i]);
}

// kOneClass: all rows are of the widest class.
template <bool kOneClass, class Count>
[[gnu::always_inline]] inline void SeekRows(const ReadView& view, Count count, ReadGroup* group) {
  for (int i = 0; i < count; ++i) {
    const SubTable& sub = *group->subs[i];
    const Latch::Version version = group->versions[i];
    bool elsewhere;
    const uint32_t ref = BucketIndex::Match(group->buckets[i], group->hashes[i], &elsewhere);
    const char* row = reinterpret_cast<const char*>(group->buckets[i]);
    int row_class = ReadGroup::kUnclear;
    if (__builtin_expect(ref == SubTable::kNone, 0)) {
      if (elsewhere) {
        row += sizeof(Bucket);  // the next bucket, for later
      } else if (sub.latch.Unchanged(version)) {
        row_class = ReadGroup::kAbsent;
      }
    } else if (__builtin_expect(sub.latch.Unchanged(version), 1)) {
      const int its_class = kOneClass ? view.widest : SubTable::ClassOf(ref);
      const SlabShape& shape = kOneClass ? view.widest_shape : view.shapes[its_class];
      const char* const its_row = sub.RowOf(shape, its_class, ref);
      if (__builtin_expect(sub.latch.Unchanged(version), 1)) {
        row = its_row;
        row_class = its_class;
      }
    }
    group->rows[i] = row;
    group->classes[i] = row_class;
  }
  // The first lines find the pages; the others then do not wait.
  for (int i = 0; i < count; ++i) Prefetch(group->rows[i]);
  for (int line = 1; line < view.lines; ++line) {
    for (int i = 0; i < count; ++i) Prefetch(group->rows[i] + 64 * line);
  }
}

// Writes the positions that stay open behind `again` and returns the end of them.
template <bool kOneClass, class Count, class Copy, class Done>
[[gnu::always_inline]] inline int64_t* CopyRows(const ReadView& view, int64_t first, Count count,
                                                const ReadGroup& group, const Copy& copy, const Done& done,
                                                int64_t* again) {
  for (int i = 0; i < count; ++i) {
    const int64_t position = first + i;
    const int row_class = group.classes[i];
    if (__builtin_expect(row_class >= 0, 1)) {
      const char* const row = group.rows[i];
      if (__builtin_expect(HeaderOf(row)->key == view.keys[position], 1)) {
        const bool there = copy(position, kOneClass ? view.widest : row_class, row);
        if (__builtin_expect(group.subs[i]->latch.Unchanged(group.versions[i]), 1)) {
          done(position, there);
          continue;
        }
      }
    } else if (row_class == ReadGroup::kAbsent) {
      done(position, false);
      continue;
    }
    *again++ = position;
  }
  return again;
}

// Keys whose first bucket did not tell where they are: what every bucket tells. Those of sub-tables that are being
// changed, and the few with more rows to look at than fit, go to `left`.
template <class Copy, class Done>
[[gnu::noinline]] void ReadAgain(ReadView view, const int64_t* begin, const int64_t* end, Copy copy, Done done,
                                 std::vector<int64_t>* left) {
  constexpr int kMostRows = 4;
  struct Guesses {
    const SubTable* sub;
    Latch::Version version;
    const char* rows[kMostRows];
    int classes[kMostRows];
    int count = 0;
    bool good = false;
  };
  Guesses all[2 * kPrefetchGroup];
  PrefetchList<2 * kPrefetchGroup * kMostRows> rows;
  for (const int64_t* position = begin; position != end; ++position) {
    Guesses& guesses = all[position - begin];
    const Place place = view.placement.Of(view.keys[*position]);
    const SubTable& sub = view.subs[place.sub];
    guesses.sub = &sub;
    guesses.version = VersionNow(sub);
    guesses.good = sub.GuessBeside(place.hash, [&](uint32_t ref) {
      if (guesses.count == kMostRows || !sub.latch.Unchanged(guesses.version)) return false;
      const int row_class = SubTable::ClassOf(ref);
      const char* const row = sub.RowOf(view.shapes[row_class], row_class, ref);
      if (!sub.latch.Unchanged(guesses.version)) return false;
      guesses.rows[guesses.count] = row;
      guesses.classes[guesses.count++] = row_class;
      rows.Add(row);
      return true;
    });
  }
  rows.Ask();
  for (const int64_t* position = begin; position != end; ++position) {
    const Guesses& guesses = all[position - begin];
    bool there = false;
    for (int i = 0; guesses.good && i < guesses.count; ++i) {
      if (HeaderOf(guesses.rows[i])->key != view.keys[*position]) continue;
      there = copy(*position, guesses.classes[i], guesses.rows[i]);
      break;
    }
    if (guesses.good && guesses.sub->latch.Unchanged(guesses.version)) {
      done(*position, there);
    } else {
      left->push_back(*position);
    }
  }
}

// copy(position, row_class, row) for each key that has a row (or a count: class 0), then done(position, there) with
// what it returned; done(position, false) for a key that is absent. What `copy` reads may be half written; then the
// position is put into `left` instead. So is one whose sub-table was being changed.
//
// Keys move on in groups: their buckets on the way, their rows on the way, copied. Those that stay open are gathered
// until they make a group of their own. Copies of the two functions are used, and all but `ReadAgain` is compiled into
// the caller, so that what they hold stays in registers: the processor's own work is a good part of a key's time.
template <bool kOneClass, class Copy, class Done>
[[gnu::always_inline]] inline void ReadUnlatched(TableCore* core, const int64_t* keys, int64_t n, int lines, Copy copy,
                                                 Done done, std::vector<int64_t>* left) {
  const ReadView view(*core, keys, lines);
  const Readers::Inside inside(&core->shared.arena.readers());
  ReadGroup groups[3];
  ReadGroup *seeking = &groups[0], *on_the_way = &groups[1], *there = &groups[2];
  int64_t open[2 * kPrefetchGroup];
  int64_t* open_end = open;
  constexpr std::integral_constant<int, kPrefetchGroup> kWhole;
  const int64_t num_whole = n / kPrefetchGroup;
  const int64_t num_groups = (n + kPrefetchGroup - 1) / kPrefetchGroup;
  const auto first_of = [](int64_t g) { return g * kPrefetchGroup; };
  const auto count_of = [=](int64_t g) { return static_cast<int>(std::min<int64_t>(kPrefetchGroup, n - first_of(g))); };
  for (int64_t g = 0; g < num_groups + 2; ++g) {
    if (g >= 2 && g < num_whole) {
      SeekBuckets(view, first_of(g), kWhole, seeking);
      SeekRows<kOneClass>(view, kWhole, on_the_way);
      open_end = CopyRows<kOneClass>(view, first_of(g - 2), kWhole, *there, copy, done, open_end);
    } else {
      if (g < num_groups) SeekBuckets(view, first_of(g), count_of(g), seeking);
      if (g >= 1 && g - 1 < num_groups) SeekRows<kOneClass>(view, count_of(g - 1), on_the_way);
      if (g >= 2) open_end = CopyRows<kOneClass>(view, first_of(g - 2), count_of(g - 2), *there, copy, done, open_end);
    }
    ReadGroup* const free = there;
    there = on_the_way;
    on_the_way = seeking;
    seeking = free;
    if (__builtin_expect(open_end - open >= kPrefetchGroup, 0)) {
      ReadAgain(view, open, open_end, copy, done, left);
      open_end = open;
    }
  }
  ReadAgain(view, open, open_end, copy, done, left);
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_READ_WALK_H_
