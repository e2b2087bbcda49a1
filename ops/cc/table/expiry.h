// The rules by which rows leave a table.
#ifndef PS_CLUSTER_OPS_TABLE_EXPIRY_H_
#define PS_CLUSTER_OPS_TABLE_EXPIRY_H_

#include <cstdint>

#include "ops/cc/table/table.h"
#include "ops/cc/table/table_spec.h"

namespace ps_cluster {

enum class ExpiryReason { kNone, kAge, kFrequency };

// Class 0 counts occurrences in whole numbers, for an exact admission; with a half life the other classes hold a
// decaying float32.
class Expiry {
 public:
  explicit Expiry(const EvictionSpec& spec)
      : spec_(spec),
        decays_(spec.half_life_steps > 0),
        any_(spec.max_age_steps > 0 || spec.max_age_hours > 0 || decays_) {}

  bool any() const { return any_; }
  bool decays() const { return decays_; }

  // A row whose last step or hour is 0 has no age.
  ExpiryReason Check(int row_class, const RowMeta& meta, Now now) const;
  bool Expired(int row_class, const RowMeta& meta, Now now) const {
    return any_ && Check(row_class, meta, now) != ExpiryReason::kNone;
  }

  // The frequency as it counts at `step`.
  double Frequency(int row_class, const RowMeta& meta, uint32_t step) const {
    return !decays_ || row_class == 0 ? meta.frequency : Decayed(meta, step);
  }
  // `frequency` as a row of the class holds it.
  uint32_t Encode(int row_class, double frequency) const;
  // With `count` more occurrences at `step`.
  uint32_t Add(int row_class, const RowMeta& meta, uint32_t step, uint32_t count) const {
    if (!decays_ || row_class == 0) return meta.frequency > kMost - count ? kMost : meta.frequency + count;
    return Encode(row_class, Frequency(row_class, meta, step) + count);
  }

 private:
  static constexpr uint32_t kMost = 0xffffffff;

  double Decayed(const RowMeta& meta, uint32_t step) const;

  EvictionSpec spec_;
  bool decays_;
  bool any_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_EXPIRY_H_
