// Room for another row: growth up to the byte budget, eviction at it.
#include "ops/cc/table/sub_table.h"

#include <algorithm>

#include "ops/cc/table/pause.h"

namespace ps_cluster {
namespace {

constexpr int kSample = 16;  // rows of which the least useful goes

}  // namespace

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

}  // namespace ps_cluster
