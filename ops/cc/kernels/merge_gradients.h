// Sums the workers' gradients and occurrences key by key.
#ifndef PS_CLUSTER_OPS_KERNELS_MERGE_GRADIENTS_H_
#define PS_CLUSTER_OPS_KERNELS_MERGE_GRADIENTS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "ops/cc/table/hashing.h"

namespace ps_cluster {

// One worker's keys of a table, how often each occurred, and their gradients [keys, dim].
template <typename T>
struct GradientShare {
  const int64_t* keys;
  const uint32_t* occurrences;
  int64_t num_keys;
  const T* gradients;
};

struct MergedGradients {
  std::vector<int64_t> keys;
  std::vector<uint32_t> occurrences;
  std::vector<float> gradients;  // [keys, dim]
};

// Every key once, in order of first occurrence, with the sum of its occurrences (saturating) and the sum of its
// gradients. Shares are added in their order, so the same shares give the same bits whichever worker came last.
template <typename T>
void MergeGradients(const std::vector<GradientShare<T>>& shares, int dim, MergedGradients* merged) {
  auto& [keys, occurrences, gradients] = *merged;
  keys.clear();
  occurrences.clear();
  gradients.clear();
  int64_t most = 0;
  for (const auto& share : shares) most += share.num_keys;
  keys.reserve(most);
  occurrences.reserve(most);
  gradients.reserve(most * dim);
  uint64_t mask = 63;
  while (mask < 2 * static_cast<uint64_t>(most)) mask = 2 * mask + 1;
  std::vector<int32_t> buckets(mask + 1, -1);
  for (const auto& share : shares) {
    const T* gradient = share.gradients;
    for (int64_t i = 0; i < share.num_keys; ++i, gradient += dim) {
      const int64_t key = share.keys[i];
      uint64_t b = Mix64(static_cast<uint64_t>(key)) & mask;
      int32_t found;
      while ((found = buckets[b]) >= 0 && keys[found] != key) b = (b + 1) & mask;
      if (found < 0) {
        buckets[b] = static_cast<int32_t>(keys.size());
        keys.push_back(key);
        occurrences.push_back(share.occurrences[i]);
        for (int j = 0; j < dim; ++j) gradients.push_back(static_cast<float>(gradient[j]));
      } else {
        const uint32_t room = std::numeric_limits<uint32_t>::max() - occurrences[found];
        occurrences[found] += share.occurrences[i] < room ? share.occurrences[i] : room;
        float* sum = gradients.data() + static_cast<int64_t>(found) * dim;
        for (int j = 0; j < dim; ++j) sum[j] += static_cast<float>(gradient[j]);
      }
    }
  }
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_MERGE_GRADIENTS_H_
