#include "ops/cc/table/sub_table.h"

#include <algorithm>
#include <cstring>

#include "ops/cc/table/pause.h"

namespace ps_cluster {
namespace {

constexpr int kSample = 16;         // rows of which the least useful goes
constexpr int64_t kAsideRows = 256;  // of a block

size_t HotKeysOf(int num_sub_tables) { return num_sub_tables <= 8 ? 32 : 8; }

}  // namespace

void SubTable::Init(Shared* shared) {
  shared_ = shared;
  index_.Init(&shared->arena);
  slabs_.reset(new RowSlabs[layout().num_classes()]);
  hot_keys_ = HotKeys(HotKeysOf(rules().num_sub_tables()));
  for (int c = 0; c < layout().num_classes(); ++c) slabs_[c].Init(&shared->arena, layout().of(c).stride);
  if (rules().admission() == AdmissionKind::kBloom) segments_.resize(kBloomSegments >> rules().sub_bits());
}

int64_t SubTable::bytes() const {
  int64_t bytes = sizeof(SubTable) + layout().num_classes() * sizeof(RowSlabs) + segments_.size() * sizeof(Segment) +
                  segment_bytes_ + index_.bytes();
  for (int c = 0; c < layout().num_classes(); ++c) bytes += slabs_[c].bytes();
  return bytes;
}

// --- Training --------------------------------------------------------------------------------------------------------

void SubTable::Push(const PushStep& step, int64_t key, uint64_t hash, uint32_t count, const float* gradient,
                    Scratch* scratch) {
  const Now now = step.now;
  latest_.step = std::max(latest_.step, now.step);
  latest_.hour = std::max(latest_.hour, now.hour);
  uint32_t ref = Find(key, hash);
  const Expiry& expiry = rules().expiry();
  if (ref != kNone && expiry.any()) {
    const ExpiryReason reason = expiry.Check(ClassOf(ref), layout().Meta(RowOf(ref)), now);
    if (reason != ExpiryReason::kNone) {
      Evict(ref, reason == ExpiryReason::kAge ? &counts_.evicted_age : &counts_.evicted_frequency);
      ref = kNone;
    }
  }
  if (ref == kNone) {
    Enter(step, key, hash, count, gradient, scratch);
    return;
  }
  BeforeChange(ref);
  char* row = RowOf(ref);
  RowMeta meta = layout().Meta(row);
  const uint32_t last_step = meta.last_step;
  meta.frequency = expiry.Add(ClassOf(ref), meta, now.step, count);
  meta.last_step = std::max(meta.last_step, now.step);
  meta.last_hour = std::max(meta.last_hour, now.hour);
  if (ClassOf(ref) == 0) {
    layout().SetMeta(row, meta);
    if (meta.frequency < rules().spec().admission.threshold) {
      ++counts_.refused;
      return;
    }
    const uint32_t admitted = Move(hash, ref, rules().ClassFor(meta.frequency), scratch);
    if (admitted == kNone) {
      ++counts_.refused;
      return;
    }
    ++counts_.inserted;
    ++counts_.admitted;
    scratch->admitted.push_back(key);
    hot_keys_.Note(key, meta.frequency);
    return;  // the gradient was taken at the cold value
  }
  layout().SetMeta(row, meta);
  const double frequency = expiry.Frequency(ClassOf(ref), meta, meta.last_step);
  hot_keys_.Note(key, frequency);
  const int row_class = rules().ClassFor(frequency);
  if (row_class > ClassOf(ref)) {
    const uint32_t moved = Move(hash, ref, row_class, scratch);
    if (moved != kNone) {
      ++counts_.promoted;
      ref = moved;
      row = RowOf(ref);
    }
  }
  // One that entered in this call comes again: its gradient was taken at the cold value too.
  if (!scratch->admitted.empty() && last_step == now.step &&
      std::find(scratch->admitted.begin(), scratch->admitted.end(), key) != scratch->admitted.end()) {
    return;
  }
  Optimize(step, ClassOf(ref), row, last_step, gradient, scratch);
}

// A key that has neither a row nor, with exact admission, a count.
void SubTable::Enter(const PushStep& step, int64_t key, uint64_t hash, uint32_t count, const float* gradient,
                     Scratch* scratch) {
  const uint32_t threshold = rules().spec().admission.threshold;
  double frequency = count;
  bool admitted = true;
  switch (rules().admission()) {
    case AdmissionKind::kNone:
      break;
    case AdmissionKind::kExact:
      admitted = count >= threshold;
      break;
    case AdmissionKind::kBloom: {
      const uint32_t total = CountInBloom(key, count);
      admitted = total >= threshold;
      frequency = std::max(total, count);
      break;
    }
    case AdmissionKind::kProbability:
      admitted = rules().Draw(key, step.now.step, count);
      break;
  }
  if (!admitted && rules().admission() != AdmissionKind::kExact) {
    ++counts_.refused;
    return;
  }
  const int row_class = admitted ? rules().ClassFor(frequency) : 0;
  const uint32_t ref = Create(key, hash, row_class);
  if (ref == kNone || !admitted) ++counts_.refused;
  if (ref == kNone) return;
  char* const row = RowOf(ref);
  layout().SetMeta(row, RowMeta{step.now.step, rules().expiry().Encode(row_class, frequency), step.now.hour});
  if (!admitted) return;
  ++counts_.inserted;
  FillFresh(key, row_class, row, scratch);
  hot_keys_.Note(key, frequency);
  if (rules().admission() == AdmissionKind::kNone) {
    Optimize(step, row_class, row, 0, gradient, scratch);
  } else {
    ++counts_.admitted;
    scratch->admitted.push_back(key);
  }
}

void SubTable::Optimize(const PushStep& step, int row_class, char* row, uint32_t last_step, const float* gradient,
                        Scratch* scratch) const {
  const RowOptimizer& optimizer = rules().spec().optimizer;
  const int dim = layout().of(row_class).dim;
  char* const values = layout().Values(row);
  if (layout().value_type() == ValueType::kFloat32) {
    optimizer.Update(step.constants, gradient, dim, last_step, reinterpret_cast<float*>(values),
                     layout().Slots(row_class, row));
    return;
  }
  scratch->values.resize(dim);
  layout().Decode(values, dim, scratch->values.data());
  optimizer.Update(step.constants, gradient, dim, last_step, scratch->values.data(), layout().Slots(row_class, row));
  layout().Encode(scratch->values.data(), dim, values);
}

// As a pull shows a key that has no row: the values of the first tier, then zeros.
void SubTable::FillFresh(int64_t key, int row_class, char* row, Scratch* scratch) const {
  const TableSpec& spec = rules().spec();
  const RowClass& shape = layout().of(row_class);
  std::memset(layout().Values(row), 0, shape.embedding_bytes);
  const int dim = spec.tiers[0].dim;
  scratch->values.resize(dim);
  FillInitialValue(spec.initializer, spec.seed, spec.salt, key, dim, scratch->values.data());
  layout().Encode(scratch->values.data(), dim, layout().Values(row));
  spec.optimizer.FillSlots(shape.dim, layout().Slots(row_class, row));
}

uint32_t SubTable::CountInBloom(int64_t key, uint32_t count) {
  const uint64_t routing_hash = HashKey(key, rules().spec().salt);
  const int segment = BloomSegmentOf(routing_hash);
  if (!BeforeBloomChange(segment)) return count;  // no room to remember it
  return SegmentOf(segment).counters.Add(rules().bloom(), routing_hash, count);
}

bool SubTable::BeforeBloomChange(int number) {
  Segment& segment = SegmentOf(number);
  const int64_t bytes = rules().bloom().segment_bytes();
  if (!segment.counters.allocated()) {
    if (!Fits(bytes) && !MakeBytes(bytes, kNone)) return false;
    segment.counters.Allocate(rules().bloom());
    segment_bytes_ += bytes;
  }
  if (segment.pending) {
    segment.aside.reset(new uint8_t[bytes]);
    std::memcpy(segment.aside.get(), segment.counters.data(), bytes);
    segment.pending = false;
  }
  segment.dirty = true;
  return true;
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
  Drop(TableRules::IndexHash(key), ref);
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
      entries.emplace_back(TableRules::IndexHash(HeaderOf(slabs_[c].At(row))->key), RefOf(c, row));
    }
  }
  index_.Grow(entries);
}

// --- Budget ----------------------------------------------------------------------------------------------------------

bool SubTable::MakeIndexRoom() {
  if (Fits(index_.bytes_to_grow())) {
    GrowIndex();
    return true;
  }
  const Pause pause(&counts_.pause_evict_us);
  uint32_t victim = kNone;
  double least = 0;
  for (int c = 0; c < layout().num_classes(); ++c) {
    const uint32_t ref = LeastUseful(c, kNone);
    if (ref == kNone) continue;
    const double frequency = rules().expiry().Frequency(c, layout().Meta(RowOf(ref)), latest_.step);
    if (victim != kNone && frequency >= least) continue;
    victim = ref;
    least = frequency;
  }
  if (victim == kNone) return false;
  Evict(victim, &counts_.evicted_bytes);
  return true;
}

uint32_t SubTable::TakeRow(int row_class, uint32_t keep) {
  RowSlabs& slabs = slabs_[row_class];
  const uint32_t number = slabs.Take();
  if (number != kNone) return number;
  if (Fits(slabs.bytes_to_grow())) {
    const Pause pause(&counts_.pause_growth_us);
    slabs.Grow();
  } else {
    const Pause pause(&counts_.pause_evict_us);
    if (!MakeRowRoom(row_class, keep)) return kNone;
  }
  return slabs.Take();
}

// Evicts until the class has a free row. Its own least useful row goes, unless another class holds a whole slab of
// rows that are used less: then that slab changes hands.
bool SubTable::MakeRowRoom(int row_class, uint32_t keep) {
  const uint32_t own = LeastUseful(row_class, keep);
  if (own != kNone) {
    const double least = rules().expiry().Frequency(row_class, layout().Meta(RowOf(own)), latest_.step);
    for (int c = 0; c < layout().num_classes(); ++c) {
      RowSlabs& other = slabs_[c];
      if (c == row_class || other.num_slabs() < 2) continue;
      const uint32_t slab = static_cast<uint32_t>(Random() % other.num_slabs());
      const bool keeps = keep != kNone && ClassOf(keep) == c && other.slab_of(NumberOf(keep)) == slab;
      if (keeps || other.rows_in(slab) == 0 || MeanFrequency(c, slab) >= least) continue;
      EvictSlab(c, slab);
      if (!Fits(slabs_[row_class].bytes_to_grow())) continue;
      slabs_[row_class].Grow();
      return true;
    }
    Evict(own, &counts_.evicted_bytes);
    return true;
  }
  if (!MakeBytes(slabs_[row_class].bytes_to_grow(), keep)) return false;
  slabs_[row_class].Grow();
  return true;
}

// Evicts whole slabs until so many bytes are free.
bool SubTable::MakeBytes(int64_t bytes, uint32_t keep) {
  while (!Fits(bytes)) {
    int best_class = -1;
    uint32_t best_slab = 0;
    double least = 0;
    for (int c = 0; c < layout().num_classes(); ++c) {
      for (uint32_t slab = 0; slab < slabs_[c].num_slabs(); ++slab) {
        const bool keeps = keep != kNone && ClassOf(keep) == c && slabs_[c].slab_of(NumberOf(keep)) == slab;
        if (keeps || slabs_[c].rows_in(slab) == 0) continue;
        const double mean = MeanFrequency(c, slab);
        if (best_class >= 0 && mean >= least) continue;
        best_class = c;
        best_slab = slab;
        least = mean;
      }
    }
    if (best_class < 0) return false;
    EvictSlab(best_class, best_slab);
  }
  return true;
}

// Of a sample: an expired row, else the one of the lowest frequency, of equals the oldest.
uint32_t SubTable::LeastUseful(int row_class, uint32_t keep) {
  RowSlabs& slabs = slabs_[row_class];
  if (slabs.live() == 0) return kNone;
  const uint64_t random = Random();
  const uint32_t slab = static_cast<uint32_t>((random >> 32) % slabs.num_slabs());
  const uint32_t inside = slabs.rows_in(slab) == 0 ? 0 : static_cast<uint32_t>(random) % slabs.rows_in(slab);
  uint32_t row = slabs.first_row(slab) + inside;
  uint32_t best = kNone;
  double least = 0;
  uint32_t oldest = 0;
  const int64_t sample = std::min<int64_t>(kSample, slabs.live());
  for (int64_t i = 0; i < sample; ++i, ++row) {
    row = slabs.Next(row, &RowBits::live);
    if (row == kNone) row = slabs.Next(0, &RowBits::live);
    const uint32_t ref = RefOf(row_class, row);
    if (ref == keep) continue;
    const RowMeta meta = layout().Meta(RowOf(ref));
    if (rules().expiry().Expired(row_class, meta, latest_)) return ref;
    const double frequency = rules().expiry().Frequency(row_class, meta, latest_.step);
    if (best != kNone && (frequency > least || (frequency == least && meta.last_step >= oldest))) continue;
    best = ref;
    least = frequency;
    oldest = meta.last_step;
  }
  return best;
}

double SubTable::MeanFrequency(int row_class, uint32_t slab) const {
  const RowSlabs& slabs = slabs_[row_class];
  double sum = 0;
  int rows = 0;
  for (uint32_t row = slabs.first_row(slab); rows < kSample; ++row, ++rows) {
    row = slabs.Next(row, &RowBits::live);
    if (row == kNone || slabs.slab_of(row) != slab) break;
    sum += rules().expiry().Frequency(row_class, layout().Meta(slabs.At(row)), latest_.step);
  }
  return rows == 0 ? 0 : sum / rows;
}

void SubTable::EvictSlab(int row_class, uint32_t slab) {
  RowSlabs& slabs = slabs_[row_class];
  for (uint32_t row = slabs.first_row(slab);; ++row) {
    row = slabs.Next(row, &RowBits::live);
    if (row == kNone || slabs.slab_of(row) != slab) break;
    Evict(RefOf(row_class, row), &counts_.evicted_bytes);
  }
  slabs.Release(slab);
}

// --- Snapshot --------------------------------------------------------------------------------------------------------

void SubTable::BeginSnapshot() {
  epoch_ = shared_->epoch;
  const bool delta = shared_->epoch_is_delta;
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([delta](RowBits& bits) {
      bits.pending = delta ? bits.live & bits.dirty : bits.live;
      bits.dirty = 0;
    });
  }
  for (Segment& segment : segments_) {
    segment.pending = segment.counters.allocated() && (segment.dirty || !delta);
    segment.dirty = false;
  }
  removed_before_.swap(removed_);
  removed_ = std::vector<int64_t>();
}

void SubTable::SetAside(uint32_t ref) {
  if (aside_.empty()) aside_.resize(layout().num_classes());
  std::vector<RowBlock>& blocks = aside_[ClassOf(ref)];
  if (blocks.empty() || blocks.back().size() == kAsideRows) {
    blocks.emplace_back();
    blocks.back().row_class = ClassOf(ref);
  }
  AppendRow(layout(), RowOf(ref), &blocks.back());
  const RowSlabs& slabs = slabs_[ClassOf(ref)];
  slabs.BitsOf(NumberOf(ref))->pending &= ~slabs.Bit(NumberOf(ref));
}

void SubTable::TakePending(int64_t rows, uint32_t* cursor, RowBlock* block) {
  const Pause pause(&counts_.pause_snapshot_us);
  const RowSlabs& slabs = slabs_[block->row_class];
  for (;;) {
    const uint32_t row = slabs.Next(*cursor, &RowBits::pending);
    *cursor = row;
    if (row == kNone || rows-- == 0) return;
    AppendRow(layout(), slabs.At(row), block);
    slabs.BitsOf(row)->pending &= ~slabs.Bit(row);
    *cursor = row + 1;
  }
}

std::vector<RowBlock> SubTable::TakeAside(int row_class) {
  std::vector<RowBlock> blocks;
  if (!aside_.empty()) blocks.swap(aside_[row_class]);
  return blocks;
}

bool SubTable::TakeBloom(int number, std::vector<uint8_t>* counters) {
  Segment& segment = SegmentOf(number);
  const Pause pause(&counts_.pause_snapshot_us);
  const int64_t bytes = rules().bloom().segment_bytes();
  if (segment.aside != nullptr) {
    counters->assign(segment.aside.get(), segment.aside.get() + bytes);
    segment.aside.reset();
    return true;
  }
  if (!segment.pending) return false;
  counters->assign(segment.counters.data(), segment.counters.data() + bytes);
  segment.pending = false;
  return true;
}

void SubTable::EndSnapshot() {
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([](RowBits& bits) { bits.pending = 0; });
  }
  for (Segment& segment : segments_) {
    segment.pending = false;
    segment.aside.reset();
  }
  aside_.clear();
  removed_before_ = std::vector<int64_t>();
}

void SubTable::MarkSaved() {
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([](RowBits& bits) { bits.dirty = 0; });
  }
  for (Segment& segment : segments_) segment.dirty = false;
  removed_ = std::vector<int64_t>();
}

void SubTable::MergeBloom(int segment, const uint8_t* counters) {
  if (BeforeBloomChange(segment)) SegmentOf(segment).counters.Merge(rules().bloom(), counters);
}

}  // namespace ps_cluster
