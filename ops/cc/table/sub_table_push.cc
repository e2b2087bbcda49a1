// What a training step does to a key: count, admit, move up, optimise.
#include "ops/cc/table/sub_table.h"

#include <algorithm>
#include <cstring>

namespace ps_cluster {

void SubTable::Push(const PushStep& step, int64_t key, uint64_t hash, const RowPlace& place, uint32_t count,
                    const float* gradient, Scratch* scratch) {
  const Now now = step.now;
  latest_.step = std::max(latest_.step, now.step);
  latest_.hour = std::max(latest_.hour, now.hour);
  uint32_t ref = place.version == version_ ? place.ref : Find(key, hash);
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
  char* row = RowOf(ref);
  if (!Marked(row)) BeforeChange(ref);
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
  if (!scratch->admitted.empty() && last_step >= now.step &&
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

}  // namespace ps_cluster
