// Initial values of a row: a pure function of (seed, table, key, position).
#ifndef PS_CLUSTER_OPS_TABLE_INITIAL_VALUE_H_
#define PS_CLUSTER_OPS_TABLE_INITIAL_VALUE_H_

#include <cmath>
#include <cstdint>

#include "ops/cc/table/hashing.h"

namespace ps_cluster {

enum class InitialKind { kZeros = 0, kUniform = 1, kNormal = 2 };

struct Initializer {
  InitialKind kind = InitialKind::kZeros;
  float scale = 0.0f;  // half width (uniform) or standard deviation (normal)
};

// 24 random bits as a float in [0, 1): every such value is exact in float32.
inline float UnitFloat(uint64_t stream, int position) {
  const uint64_t bits =
      Mix64(stream + 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(position + 1));
  return static_cast<float>(bits >> 40) * 0x1.0p-24f;
}

// Writes `dim` values to `row`.
inline void FillInitialValue(const Initializer& init, int64_t seed, int64_t salt,
                             int64_t key, int dim, float* row) {
  const uint64_t stream =
      HashKey(key, salt) ^ Mix64(static_cast<uint64_t>(seed) + 0x5851f42d4c957f2dULL);
  switch (init.kind) {
    case InitialKind::kZeros:
      for (int j = 0; j < dim; ++j) row[j] = 0.0f;
      return;
    case InitialKind::kUniform:
      for (int j = 0; j < dim; ++j) {
        row[j] = init.scale * (2.0f * UnitFloat(stream, j) - 1.0f);
      }
      return;
    case InitialKind::kNormal:
      // Box and Muller; 1 - u keeps the logarithm's argument above 0.
      for (int j = 0; j < dim; ++j) {
        const double u = 1.0 - UnitFloat(stream, 2 * j);
        const double v = UnitFloat(stream, 2 * j + 1);
        row[j] = static_cast<float>(init.scale * std::sqrt(-2.0 * std::log(u)) *
                                    std::cos(6.283185307179586 * v));
      }
      return;
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_INITIAL_VALUE_H_
