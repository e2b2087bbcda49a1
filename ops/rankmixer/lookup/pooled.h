// Sums of the rows of each list, over bursts of ids that do not stop at a list's end.
#ifndef PS_CLUSTER_OPS_RANKMIXER_LOOKUP_POOLED_H_
#define PS_CLUSTER_OPS_RANKMIXER_LOOKUP_POOLED_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/rankmixer/lookup/frozen_table.h"
#include "ops/rankmixer/lookup/id_lists.h"

namespace ps_cluster {

enum class Pooling { kSum, kMean, kSqrtn };

// Calls `put(row, vector)` with the pooled vector [dim] of each list from `first` to `last` that is not empty. A list's
// rows are added in the order of its ids.
template <typename Value, typename Index, typename Put>
void Pooled(const FrozenTable<Value, Index>& table, const IdLists& lists, Pooling pooling, int64_t first, int64_t last,
            const Put& put) {
  const int64_t dim = table.dim;
  std::vector<float> sum(dim), converted(std::is_same_v<Value, float> ? 0 : dim);
  int64_t added = 0;  // ids of the list that is being summed
  int64_t ids[kBurst], rows_of[kBurst];
  const Value* found[kBurst];
  int waiting = 0;
  const auto add_waiting = [&] {
    table.Find(ids, waiting, found);
    for (int i = 0; i < waiting; ++i) {
      const float* row = table.AsFloat(found[i], converted.data());
      if (added == 0) {
        std::copy_n(row, dim, sum.data());
      } else {
        for (int64_t k = 0; k < dim; ++k) sum[k] += row[k];
      }
      int64_t count;
      lists.Of(rows_of[i], &count);
      if (++added < count) continue;
      if (pooling != Pooling::kSum) {
        const float over = pooling == Pooling::kMean ? count : std::sqrt(static_cast<float>(count));
        for (int64_t k = 0; k < dim; ++k) sum[k] /= over;
      }
      put(rows_of[i], sum.data());
      added = 0;
    }
    waiting = 0;
  };
  for (int64_t row = first; row < last; ++row) {
    int64_t count;
    const int64_t* of_row = lists.Of(row, &count);
    for (int64_t i = 0; i < count; ++i) {
      ids[waiting] = of_row[i];
      rows_of[waiting] = row;
      if (++waiting == kBurst) add_waiting();
    }
  }
  add_waiting();
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_LOOKUP_POOLED_H_
