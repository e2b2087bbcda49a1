#include "ops/cc/table/table_rules.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

#include "ops/cc/table/row_slabs.h"

namespace ps_cluster {
namespace {

constexpr int64_t kUnitBytes = 64 << 10;
constexpr int64_t kLeastUnitBytes = 4 << 10;
constexpr int kMostTiers = kMostClasses - 1;
constexpr int kMostSubTables = 4096;

template <class Found>
void Expect(bool good, const std::string& field, const std::string& expected, const Found& found) {
  if (good) return;
  std::ostringstream text;
  text << field << ": expected " << expected << ", found " << found;
  throw std::invalid_argument(text.str());
}

const TableSpec& Checked(const TableSpec& spec) {
  Expect(!spec.tiers.empty() && spec.tiers.size() <= kMostTiers, "tiers", "1 to 7", spec.tiers.size());
  Expect(spec.tiers[0].min_frequency == 0, "tiers[0].min_frequency", "0", spec.tiers[0].min_frequency);
  for (size_t t = 0; t < spec.tiers.size(); ++t) {
    const std::string field = "tiers[" + std::to_string(t) + "]";
    Expect(spec.tiers[t].dim >= 1, field + ".dim", "at least 1", spec.tiers[t].dim);
    if (t == 0) continue;
    Expect(spec.tiers[t].dim > spec.tiers[t - 1].dim, field + ".dim", "more than the tier before", spec.tiers[t].dim);
    Expect(spec.tiers[t].min_frequency > spec.tiers[t - 1].min_frequency, field + ".min_frequency",
           "more than the tier before", spec.tiers[t].min_frequency);
  }
  const int subs = spec.num_sub_tables;
  Expect(subs >= 1 && subs <= kMostSubTables && (subs & (subs - 1)) == 0, "num_sub_tables",
         "a power of two from 1 to 4096", subs);
  const AdmissionSpec& admission = spec.admission;
  if (admission.kind == AdmissionKind::kExact || admission.kind == AdmissionKind::kBloom) {
    Expect(admission.threshold >= 1, "admission.threshold", "at least 1", admission.threshold);
  }
  if (admission.kind == AdmissionKind::kBloom) {
    Expect(admission.threshold <= 65535, "admission.threshold", "at most 65535 with a Bloom filter",
           admission.threshold);
    Expect(admission.bloom_capacity >= 1, "admission.bloom_capacity", "at least 1", admission.bloom_capacity);
    Expect(admission.bloom_error > 0 && admission.bloom_error < 1, "admission.bloom_error", "between 0 and 1",
           admission.bloom_error);
  }
  if (admission.kind == AdmissionKind::kProbability) {
    Expect(admission.probability > 0 && admission.probability <= 1, "admission.probability", "above 0, at most 1",
           admission.probability);
  }
  const EvictionSpec& eviction = spec.eviction;
  Expect(eviction.max_age_steps >= 0, "eviction.max_age_steps", "at least 0", eviction.max_age_steps);
  Expect(eviction.max_age_hours >= 0, "eviction.max_age_hours", "at least 0", eviction.max_age_hours);
  Expect(eviction.half_life_steps >= 0, "eviction.half_life_steps", "at least 0", eviction.half_life_steps);
  Expect(eviction.min_frequency >= 0, "eviction.min_frequency", "at least 0", eviction.min_frequency);
  Expect(eviction.min_frequency == 0 || eviction.half_life_steps > 0, "eviction.min_frequency",
         "0 without half_life_steps", eviction.min_frequency);
  Expect(eviction.max_bytes >= 0, "eviction.max_bytes", "at least 0", eviction.max_bytes);
  return spec;
}

AdmissionKind Effective(const AdmissionSpec& spec) {
  const bool all = spec.kind == AdmissionKind::kProbability ? spec.probability >= 1 : spec.threshold <= 1;
  return all ? AdmissionKind::kNone : spec.kind;
}

}  // namespace

TableRules::TableRules(TableSpec spec)
    : spec_(Checked(spec)), layout_(spec_), expiry_(spec_.eviction), admission_(Effective(spec_.admission)) {
  while (1 << sub_bits_ < spec_.num_sub_tables) ++sub_bits_;
  unit_bytes_ = kUnitBytes;
  if (spec_.eviction.max_bytes > 0) {
    // A budget is each sub-table's own part of it, so that what is evicted does not depend on the order in which
    // threads come to sub-tables. The parts must not be small beside a slab and the spread of hashes.
    const int64_t part = std::max<int64_t>(int64_t{256} << 10, 64 * layout_.of(layout_.widest()).stride);
    while (sub_bits_ > 0 && spec_.eviction.max_bytes >> sub_bits_ < part) --sub_bits_;
    sub_table_budget_ = spec_.eviction.max_bytes >> sub_bits_;
    while (unit_bytes_ > kLeastUnitBytes && unit_bytes_ > sub_table_budget_ / 32) unit_bytes_ /= 2;
    const int64_t least = (int64_t{16} << 10) + 64 * layout_.of(layout_.widest()).stride;
    Expect(sub_table_budget_ >= least, "eviction.max_bytes", "at least " + std::to_string(least),
           spec_.eviction.max_bytes);
  }
  placement_.sub_mask = (uint64_t{1} << sub_bits_) - 1;
  placement_.by_segment = admission_ == AdmissionKind::kBloom;
  placement_.salt = spec_.salt;
  if (placement_.by_segment) {
    bloom_ = MakeBloomShape(spec_.admission.bloom_capacity, spec_.admission.bloom_error, spec_.admission.threshold);
  }
}

bool TableRules::Draw(int64_t key, uint32_t step, uint32_t count) const {
  const uint64_t stream = HashKey(key, spec_.salt) ^ Mix64(static_cast<uint64_t>(spec_.seed) + 0x2545f4914f6cdd1dULL);
  const double draw = static_cast<double>(Mix64(stream + step) >> 11) * 0x1.0p-53;
  // At least one of `count` independent occurrences.
  return draw < -std::expm1(count * std::log1p(-spec_.admission.probability));
}

}  // namespace ps_cluster
