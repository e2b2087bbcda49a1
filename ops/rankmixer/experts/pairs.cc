#include "ops/rankmixer/experts/pairs.h"

#include <algorithm>

namespace ps_cluster {
namespace rankmixer {

Pairs::Pairs(const ExpertsSpec& spec, const float* gates, const Executor& executor)
    : experts_(spec.experts), firsts_(spec.tokens * spec.experts + 1, 0) {
  // Calls found(row, expert) for all pairs of a token, by ascending rows.
  const auto find = [&](int64_t token, const auto& found) {
    for (int64_t row = 0; row < spec.batch; ++row) {
      const float* const of_row = gates + spec.Place(token, row) * spec.experts;
      for (int64_t expert = 0; expert < spec.experts; ++expert) {
        if (of_row[expert] != 0.0f) found(row, expert);
      }
    }
  };
  executor.Run(spec.tokens, [&](int64_t token) {
    std::vector<int64_t> counts(spec.experts, 0);
    find(token, [&](int64_t, int64_t expert) { ++counts[expert]; });
    std::copy(counts.begin(), counts.end(), firsts_.begin() + token * spec.experts + 1);
  });
  for (size_t i = 1; i < firsts_.size(); ++i) firsts_[i] += firsts_[i - 1];
  rows_.resize(firsts_.back());
  executor.Run(spec.tokens, [&](int64_t token) {
    const auto first = firsts_.begin() + token * spec.experts;
    std::vector<int64_t> next(first, first + spec.experts);
    find(token, [&](int64_t row, int64_t expert) { rows_[next[expert]++] = row; });
  });
}

Pairs::Range Pairs::OfRows(int64_t token, int64_t expert, int64_t row, int64_t rows) const {
  const Range all = OfExpert(token, expert);
  const auto first = std::lower_bound(rows_.begin() + all.first, rows_.begin() + all.last, row);
  const auto last = std::lower_bound(first, rows_.begin() + all.last, row + rows);
  return {first - rows_.begin(), last - rows_.begin()};
}

}  // namespace rankmixer
}  // namespace ps_cluster
