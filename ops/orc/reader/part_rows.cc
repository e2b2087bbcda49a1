#include "ops/orc/reader/part_rows.h"

#include <algorithm>

namespace ps_cluster::orc {
namespace {

int64_t Before(const std::vector<int32_t>& positions, int64_t limit) {
  const auto below = [](int32_t position, int64_t bound) { return position < bound; };
  return std::lower_bound(positions.begin(), positions.end(), limit, below) - positions.begin();
}

}  // namespace

int64_t PartRows::KeptBefore(int64_t position) const { return all_kept ? position : Before(kept, position); }

void PartRows::AddCounts(int64_t start, int64_t end, std::vector<int64_t>* counts) const {
  (*counts)[0] += all_lost ? end - start : Before(lost, end) - Before(lost, start);
  for (size_t c = 0; c + 1 < counts->size() && c < columns.size(); ++c) {
    const std::vector<int32_t>& nulls = columns[c].nulls;
    if (!nulls.empty()) (*counts)[1 + c] += Before(nulls, end) - Before(nulls, start);
  }
}

}  // namespace ps_cluster::orc
