#include "ops/cc/table/sub_table.h"

#include <algorithm>
#include <cstring>

#include "ops/cc/table/pause.h"

namespace ps_cluster {
namespace {

size_t HotKeysOf(int num_sub_tables) { return num_sub_tables <= 8 ? 32 : 8; }

}  // namespace

void SubTable::Init(Shared* shared) {
  shared_ = shared;
  index_.Init(&shared->arena);
  slabs_.reset(new RowSlabs[layout().num_classes()]);
  hot_keys_ = HotKeys(HotKeysOf(rules().num_sub_tables()));
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].Init(&shared->arena, shared->shapes[c], &bases_[c]);
  }
  if (rules().admission() == AdmissionKind::kBloom) segments_.resize(kBloomSegments >> rules().sub_bits());
}

int64_t SubTable::bytes() const {
  int64_t bytes = sizeof(SubTable) + layout().num_classes() * sizeof(RowSlabs) + segments_.size() * sizeof(Segment) +
                  segment_bytes_ + index_.bytes();
  for (int c = 0; c < layout().num_classes(); ++c) bytes += slabs_[c].bytes();
  return bytes;
}

// --- Plain hash table ------------------------------------------------------------------------------------------------

// The key's row, if it has one, made as wide as the table.
uint32_t SubTable::Widest(int64_t key, uint64_t hash, Scratch* scratch) {
  const uint32_t ref = Find(key, hash);
  if (ref == kNone || ClassOf(ref) == layout().widest()) return ref;
  BeforeChange(ref);
  if (ClassOf(ref) == 0) ++counts_.inserted;
  return Move(hash, ref, layout().widest(), scratch);
}

void SubTable::Insert(int64_t key, uint64_t hash, const char* values, Scratch* scratch) {
  const int row_class = layout().widest();
  const int64_t bytes = int64_t{layout().of(row_class).dim} * layout().value_bytes();
  uint32_t ref = Widest(key, hash, scratch);
  if (ref == kNone) {
    ref = Create(key, hash, row_class);
    if (ref == kNone) return;
    ++counts_.inserted;
    layout().SetMeta(RowOf(ref), RowMeta());
    FillFresh(key, row_class, RowOf(ref), scratch);
  } else {
    BeforeChange(ref);
  }
  std::memcpy(layout().Values(RowOf(ref)), values, bytes);
}

void SubTable::Accumulate(int64_t key, uint64_t hash, const char* values_or_delta, bool exists, Scratch* scratch) {
  const uint32_t found = Find(key, hash);
  const bool has_row = found != kNone && ClassOf(found) != 0;
  if (has_row != exists) return;
  if (!exists) {
    Insert(key, hash, values_or_delta, scratch);
    return;
  }
  const uint32_t ref = Widest(key, hash, scratch);
  if (ref == kNone) return;
  BeforeChange(ref);
  const int dim = layout().of(layout().widest()).dim;
  char* const values = layout().Values(RowOf(ref));
  scratch->values.resize(2 * dim);
  float* const sum = scratch->values.data();
  float* const delta = sum + dim;
  layout().Decode(values, dim, sum);
  layout().Decode(values_or_delta, dim, delta);
  for (int j = 0; j < dim; ++j) sum[j] += delta[j];
  layout().Encode(sum, dim, values);
}

void SubTable::Remove(int64_t key, uint64_t hash) {
  const uint32_t ref = Find(key, hash);
  if (ref == kNone) return;
  Drop(hash, ref);
  ReleaseIfEmpty(ref);
}

// Gives back the slab of a row that was dropped. A small first slab stays; it would only have to grow again.
void SubTable::ReleaseIfEmpty(uint32_t ref) {
  RowSlabs& slabs = slabs_[ClassOf(ref)];
  const uint32_t slab = slabs.slab_of(NumberOf(ref));
  if (slabs.num_slabs() > 1 && slabs.live_in(slab) == 0) slabs.Release(slab);
}

void SubTable::Clear() {
  for (int c = 0; c < layout().num_classes(); ++c) {
    for (uint32_t row = 0; (row = slabs_[c].Next(row, &RowBits::pending)) != kNone;) SetAside(RefOf(c, row));
    slabs_[c].Clear();
  }
  index_.Clear();
  ++version_;
  hot_keys_.Clear();
  removed_.clear();
  for (size_t s = 0; s < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    if (!segment.counters.allocated()) continue;
    BeforeBloomChange(static_cast<int>(s << rules().sub_bits()));
    segment.counters.Clear();
    segment.dirty = false;
  }
  segment_bytes_ = 0;
}

// --- Rows ------------------------------------------------------------------------------------------------------------

void SubTable::InsertRow(int64_t key, uint64_t hash, int row_class, const RowMeta& meta, const char* values,
                         Scratch* scratch) {
  uint32_t ref = Find(key, hash);
  if (ref != kNone && ClassOf(ref) != row_class) {
    BeforeChange(ref);
    ref = Move(hash, ref, row_class, scratch);
  } else if (ref != kNone) {
    BeforeChange(ref);
  } else {
    ref = Create(key, hash, row_class);
  }
  if (ref == kNone) return;
  restored_step_ = std::max(restored_step_, meta.last_step);
  char* const row = RowOf(ref);
  layout().SetMeta(row, meta);
  if (row_class == 0) return;
  std::memcpy(layout().Values(row), values, layout().of(row_class).row_bytes);
  hot_keys_.Note(key, rules().expiry().Frequency(row_class, meta, meta.last_step));
}

uint32_t SubTable::Create(int64_t key, uint64_t hash, int row_class) {
  if (index_.full() && !MakeIndexRoom()) return kNone;
  const uint32_t number = TakeRow(row_class, kNone);
  if (number == kNone) return kNone;
  const uint32_t ref = RefOf(row_class, number);
  index_.Insert(hash, ref);
  ++version_;
  slabs_[row_class].BitsOf(number)->dirty |= slabs_[row_class].Bit(number);
  HeaderOf(RowOf(ref))->key = key;
  return ref;
}

uint32_t SubTable::Move(uint64_t hash, uint32_t ref, int row_class, Scratch* scratch) {
  const uint32_t number = TakeRow(row_class, ref);
  if (number == kNone) return kNone;
  const uint32_t moved = RefOf(row_class, number);
  slabs_[row_class].BitsOf(number)->dirty |= slabs_[row_class].Bit(number);
  const RowClass& before = layout().of(ClassOf(ref));
  const RowClass& after = layout().of(row_class);
  char* const from = RowOf(ref);
  char* const to = RowOf(moved);
  HeaderOf(to)->key = HeaderOf(from)->key;
  RowMeta meta = layout().Meta(from);
  const double frequency = rules().expiry().Frequency(ClassOf(ref), meta, meta.last_step);
  meta.frequency = rules().expiry().Encode(row_class, frequency);
  layout().SetMeta(to, meta);
  if (before.dim == 0 && row_class > 0) {
    FillFresh(HeaderOf(to)->key, row_class, to, scratch);
  } else if (row_class > 0) {
    const int dim = std::min(before.dim, after.dim);
    std::memset(layout().Values(to), 0, after.embedding_bytes);
    std::memcpy(layout().Values(to), layout().Values(from), int64_t{dim} * layout().value_bytes());
    float* const slots = layout().Slots(row_class, to);
    rules().spec().optimizer.FillSlots(after.dim, slots);
    const float* const old_slots = layout().Slots(ClassOf(ref), from);
    for (int s = 0; s < rules().spec().optimizer.slots(); ++s) {
      std::memcpy(slots + int64_t{s} * after.dim, old_slots + int64_t{s} * before.dim, dim * sizeof(float));
    }
  }
  index_.Replace(hash, ref, moved);
  ++version_;
  slabs_[ClassOf(ref)].Free(NumberOf(ref));
  return moved;
}

void SubTable::Drop(uint64_t hash, uint32_t ref) {
  BeforeChange(ref);
  const char* const row = RowOf(ref);
  const int64_t key = HeaderOf(row)->key;
  if (ClassOf(ref) > 0) {
    const RowMeta meta = layout().Meta(row);
    hot_keys_.Forget(key, rules().expiry().Frequency(ClassOf(ref), meta, meta.last_step));
  }
  index_.Erase(hash, ref);
  ++version_;
  slabs_[ClassOf(ref)].Free(NumberOf(ref));
  if (!rules().spec().track_removed) return;
  removed_.push_back(key);
  // With so many removed keys a delta is no smaller than the whole.
  if (static_cast<int64_t>(removed_.size()) > 2 * index_.size() + 4096) {
    removed_ = std::vector<int64_t>();
    shared_->lost_removed.store(true, std::memory_order_relaxed);
  }
}

void SubTable::Evict(uint32_t ref, int64_t* count) {
  const int64_t key = HeaderOf(RowOf(ref))->key;
  ++*count;
  if (ClassOf(ref) > 0) {
    shared_->evicted.Add(key);
    if (rules().admission() == AdmissionKind::kBloom) {
      const uint64_t routing_hash = HashKey(key, rules().spec().salt);
      const int segment = BloomSegmentOf(routing_hash);
      if (SegmentOf(segment).counters.allocated() && BeforeBloomChange(segment)) {
        SegmentOf(segment).counters.Reset(rules().bloom(), routing_hash);
      }
    }
  }
  Drop(Placement::IndexHash(key), ref);
}

int64_t SubTable::Sweep(Now now, int64_t rows, uint32_t* cursor) {
  const Pause pause(&counts_.pause_evict_us);
  int64_t dropped = 0;
  int row_class = ClassOf(*cursor);
  uint32_t number = NumberOf(*cursor);
  for (;;) {
    const uint32_t next = slabs_[row_class].Next(number, &RowBits::live);
    if (next == kNone) {
      if (++row_class == layout().num_classes()) {
        *cursor = kNone;
        return dropped;
      }
      number = 0;
      continue;
    }
    const uint32_t ref = RefOf(row_class, next);
    if (rows-- == 0) {
      *cursor = ref;
      return dropped;
    }
    const ExpiryReason reason = rules().expiry().Check(row_class, layout().Meta(RowOf(ref)), now);
    if (reason != ExpiryReason::kNone) {
      Evict(ref, reason == ExpiryReason::kAge ? &counts_.evicted_age : &counts_.evicted_frequency);
      ReleaseIfEmpty(ref);
      ++dropped;
    }
    number = next + 1;
  }
}

void SubTable::Export(int64_t rows, uint32_t* cursor, RowBlock* block) const {
  const RowSlabs& slabs = slabs_[block->row_class];
  for (;;) {
    const uint32_t row = slabs.Next(*cursor, &RowBits::live);
    *cursor = row;
    if (row == kNone || rows-- == 0) return;
    AppendRow(layout(), slabs.At(row), block);
    *cursor = row + 1;
  }
}

void SubTable::GrowIndex() {
  const Pause pause(&counts_.pause_growth_us);
  std::vector<std::pair<uint64_t, uint32_t>> entries;
  entries.reserve(index_.size());
  for (int c = 0; c < layout().num_classes(); ++c) {
    for (uint32_t row = 0; (row = slabs_[c].Next(row, &RowBits::live)) != kNone; ++row) {
      entries.emplace_back(Placement::IndexHash(HeaderOf(slabs_[c].At(row))->key), RefOf(c, row));
    }
  }
  index_.Grow(entries);
}

}  // namespace ps_cluster
