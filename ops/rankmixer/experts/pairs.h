// The rows that each expert computes: those whose gate is not zero. A gate that is not a number is none that is zero.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_PAIRS_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_PAIRS_H_

#include <cstdint>
#include <vector>

#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/experts/spec.h"

namespace ps_cluster {
namespace rankmixer {

// Pairs of an expert and a row, numbered token by token, of a token expert by expert, of an expert by ascending rows.
class Pairs {
 public:
  struct Range {
    int64_t first, last;  // without the last

    int64_t size() const { return last - first; }
  };

  Pairs(const ExpertsSpec& spec, const float* gates, const Executor& executor);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

  // Rows of the pairs from this one on.
  const int64_t* rows(int64_t pair) const { return rows_.data() + pair; }

  // Of tokens [token, token + tokens).
  Range OfTokens(int64_t token, int64_t tokens) const {
    return {firsts_[token * experts_], firsts_[(token + tokens) * experts_]};
  }
  Range OfExpert(int64_t token, int64_t expert) const {
    return {firsts_[token * experts_ + expert], firsts_[token * experts_ + expert + 1]};
  }
  // Those of the expert with rows [row, row + rows).
  Range OfRows(int64_t token, int64_t expert, int64_t row, int64_t rows) const;

 private:
  const int64_t experts_;
  std::vector<int64_t> firsts_;  // [tokens * experts + 1]
  std::vector<int64_t> rows_;
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_PAIRS_H_
