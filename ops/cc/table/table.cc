#include "ops/cc/table/table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/cc/table/batch.h"
#include "ops/cc/table/read_walk.h"
#include "ops/cc/table/table_core.h"

namespace ps_cluster {
namespace {

constexpr int64_t kSlice = 128;         // rows that are swept or exported under a latch
constexpr size_t kHotKeys = 32;
constexpr int64_t kMostHeaderBytes = 20;

using LatchLock = std::lock_guard<Latch>;
using ChangeLock = std::shared_lock<Gate>;

Walk WalkOver(int64_t bytes, bool changes) {
  Walk walk;
  walk.lines = static_cast<int>(bytes / 64 + 1);
  walk.changes = walk.bits = changes;
  return walk;
}

// The batch from sub-table to sub-table. Each call starts at another, so that calls do not follow each other's latches.
template <class Work>
void WalkAll(TableCore* core, const Batch& batch, const Walk& walk, const Work& work) {
  const int subs = core->rules().num_sub_tables();
  const int from = static_cast<int>(core->turn.fetch_add(37, std::memory_order_relaxed) & (subs - 1));
  const auto walk_over = [&](const BatchItem* begin, const BatchItem* end) {
    WalkItems(
        core->subs.data(), core->shared.shapes, begin, end, walk, [](const BatchItem&) {},
        [](SubTable*, const BatchItem&) { return 0; },
        [&](SubTable* sub, const BatchItem& item, int) { work(sub, item); });
  };
  walk_over(batch.begin(from), batch.end(subs));
  walk_over(batch.begin(0), batch.end(from));
}

// Copies embeddings as they are stored, zeros behind narrower ones.
struct RowCopy {
  explicit RowCopy(const TableRules& rules)
      : widest(rules.layout().widest()),
        header_bytes(rules.layout().header_bytes()),
        bytes(int64_t{rules.width()} * rules.layout().value_bytes()),
        layout(&rules.layout()) {}

  void Copy(int row_class, const char* row, char* to) const {
    if (__builtin_expect(row_class == widest, 1)) {
      CopyBytes(row + header_bytes, bytes, to);
      return;
    }
    const int64_t have = int64_t{layout->of(row_class).dim} * layout->value_bytes();
    std::memcpy(to, row + header_bytes, have);
    std::memset(to + have, 0, bytes - have);
  }

  int widest;
  int header_bytes;
  int64_t bytes;
  const RowLayout* layout;
};

// copy(position, row_class, row) and done(position, there) for all keys, as `ReadUnlatched` calls them.
template <class Copy, class Done>
void ReadAll(TableCore* core, const int64_t* keys, int64_t n, const Copy& copy, const Done& done) {
  const RowLayout& layout = core->rules().layout();
  const Walk walk = WalkOver(layout.of(layout.widest()).embedding_bytes + kMostHeaderBytes, false);
  std::vector<int64_t> left;
#if defined(__SANITIZE_THREAD__)
  left.resize(n);  // it takes reading beside a change for an error, whatever is then done with it
  std::iota(left.begin(), left.end(), 0);
#else
  if (layout.widest() == 1 && core->rules().admission() != AdmissionKind::kExact) {
    ReadUnlatched<true>(core, keys, n, walk.lines, copy, done, &left);
  } else {
    ReadUnlatched<false>(core, keys, n, walk.lines, copy, done, &left);
  }
#endif
  if (left.empty()) return;
  std::vector<int64_t> left_keys(left.size());
  for (size_t i = 0; i < left.size(); ++i) left_keys[i] = keys[left[i]];
  const Batch batch(core->rules(), left_keys.data(), static_cast<int64_t>(left_keys.size()));
  WalkAll(core, batch, walk, [&](SubTable* sub, const BatchItem& item) {
    const int64_t position = left[item.position];
    const uint32_t ref = sub->Find(item.key, item.hash);
    done(position, ref != SubTable::kNone && copy(position, SubTable::ClassOf(ref), sub->RowOf(ref)));
  });
}

// change(sub_table, key, hash, position) for all keys; the first of equal keys comes first.
template <class Change>
void ChangeAll(TableCore* core, const int64_t* keys, int64_t n, const Change& change) {
  const RowLayout& layout = core->rules().layout();
  const Walk walk = WalkOver(layout.of(layout.widest()).stride, true);
  const ChangeLock changing(core->gate);
  const Batch batch(core->rules(), keys, n);
  WalkAll(core, batch, walk,
          [&](SubTable* sub, const BatchItem& item) { change(sub, item.key, item.hash, int64_t{item.position}); });
}

void Raise(std::atomic<uint32_t>* newest, uint32_t value) {
  uint32_t before = newest->load(std::memory_order_relaxed);
  while (before < value && !newest->compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

class Table::Impl : public TableCore {
 public:
  using TableCore::TableCore;
};

Table::Table(TableSpec spec) : impl_(std::make_unique<Impl>(spec)) {}
Table::~Table() = default;

const TableSpec& Table::spec() const { return impl_->rules().spec(); }
int Table::width() const { return impl_->rules().width(); }
int Table::num_classes() const { return impl_->rules().layout().num_classes(); }
int Table::dim(int row_class) const { return impl_->rules().layout().of(row_class).dim; }
int64_t Table::RowBytes(int row_class) const { return impl_->rules().layout().of(row_class).row_bytes; }

void Table::Pull(const int64_t* keys, int64_t n, Now now, bool training, float* out) {
  if (now.step == 0) now.step = impl_->newest_step.load(std::memory_order_relaxed);
  if (now.hour == 0) now.hour = impl_->newest_hour.load(std::memory_order_relaxed);
  const TableRules& rules = impl_->rules();
  const RowLayout& layout = rules.layout();
  const int width = rules.width();
  std::vector<int64_t> missing;
  const RowCopy shape(rules);
  const bool expires = rules.expiry().any();
  const bool narrow = layout.value_type() != ValueType::kFloat32;
  ReadAll(
      impl_.get(), keys, n,
      [=, &rules, &layout](int64_t position, int row_class, const char* row) {
        if (row_class == 0 || (expires && rules.expiry().Expired(row_class, layout.Meta(row), now))) return false;
        float* const to = out + position * width;
        if (!narrow) {
          shape.Copy(row_class, row, reinterpret_cast<char*>(to));
        } else {
          const int dim = layout.of(row_class).dim;
          layout.Decode(layout.Values(row), dim, to);
          std::memset(to + dim, 0, (width - dim) * sizeof(float));
        }
        return true;
      },
      [&missing](int64_t position, bool there) {
        if (!there) missing.push_back(position);
      });
  impl_->looked_up.fetch_add(n, std::memory_order_relaxed);
  impl_->hits.fetch_add(n - static_cast<int64_t>(missing.size()), std::memory_order_relaxed);
  // Initial values take longer than a latch should be held.
  const bool initial = training && rules.admission() == AdmissionKind::kNone;
  const bool cold = rules.admission() != AdmissionKind::kNone;
  const TableSpec& spec = rules.spec();
  for (const int64_t position : missing) {
    float* const to = out + position * width;
    std::fill(to, to + width, cold ? spec.admission.cold_value : 0.0f);
    if (!initial) continue;
    const int dim = spec.tiers[0].dim;
    FillInitialValue(spec.initializer, spec.seed, spec.salt, keys[position], dim, to);
    if (spec.value_type == ValueType::kFloat32) continue;
    // As the row will hold it.
    std::vector<char> stored(layout.of(1).embedding_bytes);
    layout.Encode(to, dim, stored.data());
    layout.Decode(stored.data(), dim, to);
  }
}

void Table::Push(const int64_t* keys, const uint32_t* counts, const float* gradients, int64_t n, Now now,
                 float learning_rate, const Parallel& parallel, float gradient_scale) {
  Raise(&impl_->newest_step, now.step);
  Raise(&impl_->newest_hour, now.hour);
  const TableRules& rules = impl_->rules();
  const RowLayout& layout = rules.layout();
  const int width = rules.width();
  const PushStep step{now, rules.spec().optimizer.At(now.step, learning_rate, gradient_scale)};
  Walk walk = WalkOver(layout.of(layout.widest()).stride, true);
  walk.bits = false;
  const int64_t gradient_bytes = int64_t{width} * sizeof(float);
  const ChangeLock changing(impl_->gate);
  const Batch batch(rules, keys, n);
  const auto push = [&](int64_t from, int64_t to) {
    Scratch scratch;
    uint32_t sub_in_hand = 0;
    const auto ahead = [&](const BatchItem& item) {
      Prefetch(counts + item.position);
      const char* const gradient = reinterpret_cast<const char*>(gradients + int64_t{item.position} * width);
      for (int64_t at = 0; at < gradient_bytes; at += 64) Prefetch(gradient + at);
    };
    const auto look = [](SubTable* sub, const BatchItem& item) { return sub->Look(item.key, item.hash); };
    const auto work = [&](SubTable* sub, const BatchItem& item, const RowPlace& place) {
      if (item.sub != sub_in_hand) {
        sub_in_hand = item.sub;
        scratch.admitted.clear();
      }
      sub->Push(step, item.key, item.hash, place, counts[item.position],
                gradients + int64_t{item.position} * width, &scratch);
    };
    WalkItems(impl_->subs.data(), impl_->shared.shapes, batch.begin(from), batch.end(to), walk, ahead, look,
              work);
  };
  if (parallel == nullptr) {
    push(0, rules.num_sub_tables());
  } else {
    parallel(rules.num_sub_tables(), push);
  }
}

int64_t Table::Sweep(Now now, int64_t max_rows) {
  if (!impl_->rules().expiry().any()) return 0;
  const std::lock_guard<std::mutex> sweeping(impl_->sweep_mutex);
  int64_t dropped = 0;
  const int subs = impl_->rules().num_sub_tables();
  int64_t ends = 0;  // of sub-tables; after as many as there are, every row has been looked at
  for (int64_t rows = max_rows; rows > 0 && ends <= subs; rows -= kSlice) {
    const ChangeLock changing(impl_->gate);
    SubTable& sub = impl_->subs[impl_->sweep_sub];
    const LatchLock lock(sub.latch);
    sub.Sync();
    dropped += sub.Sweep(now, std::min(rows, kSlice), &impl_->sweep_cursor);
    if (impl_->sweep_cursor != SubTable::kNone) continue;
    impl_->sweep_sub = (impl_->sweep_sub + 1) % subs;
    impl_->sweep_cursor = 0;
    ++ends;
  }
  return dropped;
}

void Table::Find(const int64_t* keys, int64_t n, const void* defaults, bool one_default, void* out, bool* exists) {
  const RowLayout& layout = impl_->rules().layout();
  const int64_t bytes = int64_t{impl_->rules().width()} * layout.value_bytes();
  const RowCopy shape(impl_->rules());
  std::vector<int64_t> missing;
  ReadAll(
      impl_.get(), keys, n,
      [=](int64_t position, int row_class, const char* row) {
        if (row_class == 0) return false;
        shape.Copy(row_class, row, static_cast<char*>(out) + position * bytes);
        return true;
      },
      [exists, &missing](int64_t position, bool there) {
        if (exists != nullptr) exists[position] = there;
        if (!there) missing.push_back(position);
      });
  for (const int64_t position : missing) {
    std::memcpy(static_cast<char*>(out) + position * bytes,
                static_cast<const char*>(defaults) + (one_default ? 0 : position * bytes), bytes);
  }
  impl_->looked_up.fetch_add(n, std::memory_order_relaxed);
  impl_->hits.fetch_add(n - static_cast<int64_t>(missing.size()), std::memory_order_relaxed);
}

void Table::Insert(const int64_t* keys, int64_t n, const void* values) {
  const int64_t bytes = int64_t{impl_->rules().width()} * impl_->rules().layout().value_bytes();
  Scratch scratch;
  ChangeAll(impl_.get(), keys, n, [&](SubTable* sub, int64_t key, uint64_t hash, int64_t position) {
    sub->Insert(key, hash, static_cast<const char*>(values) + position * bytes, &scratch);
  });
}

void Table::Accumulate(const int64_t* keys, int64_t n, const void* values_or_deltas, const bool* exists) {
  const int64_t bytes = int64_t{impl_->rules().width()} * impl_->rules().layout().value_bytes();
  Scratch scratch;
  ChangeAll(impl_.get(), keys, n,
            [&](SubTable* sub, int64_t key, uint64_t hash, int64_t position) {
              sub->Accumulate(key, hash, static_cast<const char*>(values_or_deltas) + position * bytes,
                              exists[position], &scratch);
            });
}

void Table::Remove(const int64_t* keys, int64_t n) {
  ChangeAll(impl_.get(), keys, n,
            [](SubTable* sub, int64_t key, uint64_t hash, int64_t) { sub->Remove(key, hash); });
}

void Table::Clear() {
  const ChangeLock changing(impl_->gate);
  for (SubTable& sub : impl_->subs) {
    const LatchLock lock(sub.latch);
    sub.Sync();
    sub.Clear();
  }
  impl_->shared.lost_removed.store(true, std::memory_order_relaxed);
}

int64_t Table::size() const {
  int64_t rows = 0;
  for (SubTable& sub : impl_->subs) {
    const LatchLock lock(sub.latch);
    for (int c = 1; c < num_classes(); ++c) rows += sub.rows_of(c);
  }
  return rows;
}

bool Table::Export(uint64_t* cursor, int64_t max_rows, RowBlock* block) {
  // The class in the uppermost byte, counted from the widest down to the keys that are only counted; the sub-table
  // above a row's number.
  const int classes = num_classes();
  const uint64_t subs = impl_->subs.size();
  block->clear();
  int turn = static_cast<int>(*cursor >> 56);
  uint64_t s = *cursor >> 32 & 0xffffff;
  uint32_t row = static_cast<uint32_t>(*cursor);
  while (turn < classes && block->size() < max_rows) {
    block->row_class = classes - 1 - turn;
    SubTable& sub = impl_->subs[s];
    {
      const LatchLock lock(sub.latch);
      sub.Export(std::min(kSlice, max_rows - block->size()), &row, block);
    }
    if (row != SubTable::kNone) continue;
    row = 0;
    if (++s < subs) continue;
    s = 0;
    ++turn;
    if (block->size() > 0) break;
  }
  *cursor = static_cast<uint64_t>(turn) << 56 | s << 32 | row;
  return block->size() > 0;
}

std::unique_ptr<Snapshot> Table::BeginSnapshot(bool delta) { return MakeSnapshot(impl_.get(), delta); }

void Table::InsertRows(const RowBlock& block) {
  const int row_class = block.row_class;
  const auto expect = [](bool good, const std::string& field, int64_t expected, int64_t found) {
    if (good) return;
    throw std::invalid_argument(field + ": expected " + std::to_string(expected) + ", found " + std::to_string(found));
  };
  expect(row_class >= 0 && row_class < num_classes(), "row class below", num_classes(), row_class);
  const int64_t n = block.size(), bytes = RowBytes(row_class);
  expect(static_cast<int64_t>(block.meta.size()) == n, "entries of meta", n, static_cast<int64_t>(block.meta.size()));
  expect(static_cast<int64_t>(block.rows.size()) == n * bytes, "bytes of rows", n * bytes,
         static_cast<int64_t>(block.rows.size()));
  // Other kinds of admission have no use for counts of keys.
  if (row_class == 0 && impl_->rules().admission() != AdmissionKind::kExact) return;
  for (const RowMeta& meta : block.meta) {
    Raise(&impl_->newest_step, meta.last_step);
    Raise(&impl_->newest_hour, meta.last_hour);
  }
  Scratch scratch;
  ChangeAll(impl_.get(), block.keys.data(), n,
            [&](SubTable* sub, int64_t key, uint64_t hash, int64_t position) {
              const char* const row = block.rows.data() + position * bytes;
              sub->InsertRow(key, hash, row_class, block.meta[position], row, &scratch);
            });
}

void Table::MergeBloom(const BloomSegment& segment) {
  const int64_t bytes = bloom_segment_bytes(), found = static_cast<int64_t>(segment.counters.size());
  if (segment.index < 0 || segment.index >= kBloomSegments) {
    throw std::invalid_argument("Bloom segment: expected 0 to 4095, found " + std::to_string(segment.index));
  }
  if (bytes == 0 || found != bytes) {
    throw std::invalid_argument("bytes of a Bloom segment: expected " + std::to_string(bytes) + ", found " +
                                std::to_string(found));
  }
  const ChangeLock changing(impl_->gate);
  SubTable& sub = impl_->subs[segment.index & (impl_->subs.size() - 1)];
  const LatchLock lock(sub.latch);
  sub.Sync();
  sub.MergeBloom(segment.index, segment.counters.data());
}

int64_t Table::bloom_segment_bytes() const { return impl_->rules().bloom().segment_bytes(); }

void Table::MarkSaved() {
  const std::lock_guard<Gate> alone(impl_->gate);
  for (SubTable& sub : impl_->subs) {
    const LatchLock lock(sub.latch);
    sub.Sync();
    sub.MarkSaved();
  }
  impl_->has_base = true;
  impl_->shared.lost_removed.store(false, std::memory_order_relaxed);
}

std::vector<int64_t> Table::TakeEvicted() { return impl_->shared.evicted.TakeAll(); }

bool Table::Look(int64_t key, int* row_class, RowMeta* meta) const {
  const Place place = impl_->rules().placement().Of(key);
  SubTable& sub = impl_->subs[place.sub];
  const LatchLock lock(sub.latch);
  const uint32_t ref = sub.Find(key, place.hash);
  if (ref == SubTable::kNone) return false;
  *row_class = SubTable::ClassOf(ref);
  *meta = impl_->rules().layout().Meta(sub.RowOf(ref));
  return true;
}

TableStats Table::Stats() const {
  TableStats stats;
  const RowLayout& layout = impl_->rules().layout();
  stats.rows_by_tier.resize(spec().tiers.size());
  std::vector<std::pair<int64_t, double>> hot;
  for (SubTable& sub : impl_->subs) {
    const LatchLock lock(sub.latch);
    stats.counted_keys += sub.rows_of(0);
    for (int c = 1; c < num_classes(); ++c) stats.rows_by_tier[c - 1] += sub.rows_of(c);
    stats.bytes += sub.bytes();
    const SubTableCounts& counts = sub.counts();
    stats.inserted += counts.inserted;
    stats.admitted += counts.admitted;
    stats.refused += counts.refused;
    stats.promoted += counts.promoted;
    stats.evicted_age += counts.evicted_age;
    stats.evicted_frequency += counts.evicted_frequency;
    stats.evicted_bytes += counts.evicted_bytes;
    stats.pause_growth_us = std::max(stats.pause_growth_us, counts.pause_growth_us);
    stats.pause_evict_us = std::max(stats.pause_evict_us, counts.pause_evict_us);
    stats.pause_snapshot_us = std::max(stats.pause_snapshot_us, counts.pause_snapshot_us);
    hot.insert(hot.end(), sub.hot_keys().keys().begin(), sub.hot_keys().keys().end());
  }
  for (int c = 1; c < num_classes(); ++c) {
    const int64_t rows = stats.rows_by_tier[c - 1];
    stats.rows += rows;
    stats.embedding_values += rows * layout.of(c).dim;
    stats.payload_bytes += rows * (static_cast<int64_t>(sizeof(RowHeader)) + layout.of(c).row_bytes);
  }
  stats.looked_up = impl_->looked_up.load(std::memory_order_relaxed);
  stats.hits = impl_->hits.load(std::memory_order_relaxed);
  const auto more = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  const size_t most = std::min(kHotKeys, hot.size());
  std::partial_sort(hot.begin(), hot.begin() + most, hot.end(), more);
  for (size_t i = 0; i < most; ++i) {
    stats.hot_keys.emplace_back(hot[i].first, static_cast<uint64_t>(std::llround(hot[i].second)));
  }
  return stats;
}

}  // namespace ps_cluster
