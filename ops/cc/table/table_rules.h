// What is the same for all sub-tables of a table.
#ifndef PS_CLUSTER_OPS_TABLE_TABLE_RULES_H_
#define PS_CLUSTER_OPS_TABLE_TABLE_RULES_H_

#include <cstdint>

#include "ops/cc/table/bloom.h"
#include "ops/cc/table/expiry.h"
#include "ops/cc/table/hashing.h"
#include "ops/cc/table/row_layout.h"
#include "ops/cc/table/table_spec.h"

namespace ps_cluster {

// Where a key lies.
struct Place {
  uint64_t hash;  // of the index
  uint32_t sub;   // the sub-table
};

// Where keys lie. In a loop, use a copy: what it reads then stays in registers.
struct Placement {
  uint64_t sub_mask = 0;
  bool by_segment = false;
  int64_t salt = 0;

  // Not the routing hash: one PS has a range of that, which would fill a part of the buckets only.
  static uint64_t IndexHash(int64_t key) { return Mix64(static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ULL); }
  Place Of(int64_t key) const {
    const uint64_t hash = IndexHash(key);
    // The counters of a Bloom filter's segment are under one latch and taken in one order, so all ids of a segment
    // are in one sub-table.
    const uint64_t choice = by_segment ? static_cast<uint64_t>(BloomSegmentOf(HashKey(key, salt))) : hash >> 40;
    return Place{hash, static_cast<uint32_t>(choice & sub_mask)};
  }
};

class TableRules {
 public:
  // Throws std::invalid_argument with one line that names the field.
  explicit TableRules(TableSpec spec);

  const TableSpec& spec() const { return spec_; }
  const RowLayout& layout() const { return layout_; }
  const Expiry& expiry() const { return expiry_; }
  const BloomShape& bloom() const { return bloom_; }
  // kNone where the spec's admission refuses nobody.
  AdmissionKind admission() const { return admission_; }
  int num_sub_tables() const { return 1 << sub_bits_; }
  int sub_bits() const { return sub_bits_; }
  int width() const { return spec_.tiers.back().dim; }
  int64_t sub_table_budget() const { return sub_table_budget_; }  // bytes; 0: none
  int64_t unit_bytes() const { return unit_bytes_; }

  const Placement& placement() const { return placement_; }

  // The class of a row with this frequency.
  int ClassFor(double frequency) const {
    int row_class = layout_.widest();
    while (row_class > 1 && frequency < spec_.tiers[row_class - 1].min_frequency) --row_class;
    return row_class;
  }
  // Whether `count` occurrences at `step` win a row by chance.
  bool Draw(int64_t key, uint32_t step, uint32_t count) const;

 private:
  TableSpec spec_;
  RowLayout layout_;
  Expiry expiry_;
  AdmissionKind admission_;
  BloomShape bloom_;
  int sub_bits_ = 0;
  Placement placement_;
  int64_t sub_table_budget_ = 0;
  int64_t unit_bytes_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_TABLE_RULES_H_
