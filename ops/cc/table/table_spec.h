// What an embedding table is made of and by which rules ids enter and leave it.
#ifndef PS_CLUSTER_OPS_TABLE_TABLE_SPEC_H_
#define PS_CLUSTER_OPS_TABLE_TABLE_SPEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/cc/table/initial_value.h"
#include "ops/cc/table/row_optimizer.h"

namespace ps_cluster {

// How embeddings are stored. Slots are float32 always: the second moment of Adam has no place in 16 bits.
enum class ValueType { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2 };

// Rows of one width. An id moves up to a tier when its frequency reaches `min_frequency`; it never moves down.
struct Tier {
  int dim = 0;
  uint32_t min_frequency = 0;
};

enum class AdmissionKind { kNone = 0, kExact = 1, kBloom = 2, kProbability = 3 };

struct AdmissionSpec {
  AdmissionKind kind = AdmissionKind::kNone;
  uint32_t threshold = 1;        // exact, Bloom: occurrences from which on an id has a row
  int64_t bloom_capacity = 0;    // Bloom: ids, over all PS, for which `bloom_error` holds
  double bloom_error = 0.0;      // Bloom: share of ids whose count is too high
  double probability = 1.0;      // probability: of each occurrence to give the id its row
  float cold_value = 0.0f;       // what an id without a row looks like, in every position
};

// An id is expired when any rule that is set says so; 0: the rule is not set. What is expired counts as absent at
// once, whenever its memory is reclaimed: the answer depends on steps and hours alone.
struct EvictionSpec {
  int64_t max_age_steps = 0;     // steps since the row's last update
  int64_t max_age_hours = 0;     // hours of event time since then
  double half_life_steps = 0.0;  // the frequency halves in so many steps without occurrence
  double min_frequency = 0.0;    // with `half_life_steps`: decayed frequency below which a row goes
  int64_t max_bytes = 0;         // of rows, index and counts, on this PS
};

struct TableSpec {
  std::vector<Tier> tiers;  // widths increase; the first has min_frequency 0
  ValueType value_type = ValueType::kFloat32;
  RowOptimizer optimizer;  // kNone: rows have no slots
  Initializer initializer;
  int64_t salt = 0;  // tells tables apart in hashes
  int64_t seed = 0;
  AdmissionSpec admission;
  EvictionSpec eviction;
  bool track_removed = false;  // remember removed keys, for delta checkpoints
  int num_sub_tables = 256;    // a power of two
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_TABLE_SPEC_H_
