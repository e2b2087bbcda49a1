// Lists of ids as a client sends them: padded, beside their lengths, of which the newest ids count.
#ifndef PS_CLUSTER_OPS_RANKMIXER_LOOKUP_ID_LISTS_H_
#define PS_CLUSTER_OPS_RANKMIXER_LOOKUP_ID_LISTS_H_

#include <algorithm>
#include <cstdint>

namespace ps_cluster {

struct IdLists {
  const int64_t* ids;  // [batch, longest]
  int64_t longest;
  const int64_t* lengths;  // [batch]; beyond `longest` they count as it, below 0 as 0
  int64_t most;            // ids of a list that count, the last ones; 0: all

  // The ids of a row that count.
  const int64_t* Of(int64_t row, int64_t* count) const {
    const int64_t length = std::clamp<int64_t>(lengths[row], 0, longest);
    *count = most > 0 ? std::min(length, most) : length;
    return ids + row * longest + (length - *count);
  }
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_LOOKUP_ID_LISTS_H_
