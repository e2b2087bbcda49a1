#include "ops/cc/table/expiry.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ps_cluster {
namespace {

uint32_t Between(uint32_t before, uint32_t after) { return after > before ? after - before : 0; }

}  // namespace

ExpiryReason Expiry::Check(int row_class, const RowMeta& meta, Now now) const {
  if (spec_.max_age_steps > 0 && meta.last_step > 0 && Between(meta.last_step, now.step) > spec_.max_age_steps) {
    return ExpiryReason::kAge;
  }
  if (spec_.max_age_hours > 0 && meta.last_hour > 0 && Between(meta.last_hour, now.hour) > spec_.max_age_hours) {
    return ExpiryReason::kAge;
  }
  if (decays_ && spec_.min_frequency > 0 && meta.last_step > 0) {
    const double age = Between(meta.last_step, now.step);
    const double frequency = Frequency(row_class, meta, now.step);
    // A key that is only counted has few occurrences by nature: it goes when no half of one is left.
    const double least = row_class == 0 ? std::min(spec_.min_frequency, 0.5) : spec_.min_frequency;
    if (age > 0 && (row_class == 0 ? frequency * std::exp2(-age / spec_.half_life_steps) : frequency) < least) {
      return ExpiryReason::kFrequency;
    }
  }
  return ExpiryReason::kNone;
}

double Expiry::Decayed(const RowMeta& meta, uint32_t step) const {
  float frequency;
  std::memcpy(&frequency, &meta.frequency, sizeof frequency);
  const uint32_t age = meta.last_step > 0 ? Between(meta.last_step, step) : 0;
  return age == 0 ? double{frequency} : frequency * std::exp2(-static_cast<double>(age) / spec_.half_life_steps);
}

uint32_t Expiry::Encode(int row_class, double frequency) const {
  if (!decays_ || row_class == 0) return frequency < double{kMost} ? static_cast<uint32_t>(frequency) : kMost;
  const float value = static_cast<float>(frequency);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace ps_cluster
