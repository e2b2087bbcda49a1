// Scratch memory of a call: what lies where in it, and so how much of it there must be.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_WORKSPACE_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_WORKSPACE_CUH_

#include "ops/rankmixer_cuda/column_sums.cuh"
#include "ops/rankmixer_cuda/product.cuh"
#include "ops/rankmixer_cuda/rankmixer_cuda.h"

namespace ps_cluster::rankmixer_cuda {

using Problem = PsClusterRankmixerProblem;
using Weights = PsClusterRankmixerWeights;
using Gradients = PsClusterRankmixerGradients;

inline BlockShape block_shape(const Problem& problem) {
  return {problem.batch, static_cast<int>(problem.tokens), static_cast<int>(problem.dim),
          static_cast<int>(problem.dim / problem.tokens)};
}
inline bool gated(const Problem& problem) { return problem.activation == kPsClusterSwiglu; }
inline int64_t inner_width(const Problem& problem) { return problem.hidden * (gated(problem) ? 2 : 1); }

// Whether the second norm is made where the second product's rows still are in registers.
inline bool norm_is_fused(const Problem& problem) {
  return problem.norm == kPsClusterPostLn && problem.dim <= kTileOuter;
}

// Hands out parts of a piece of memory; with a null base it only counts.
class Workspace {
 public:
  explicit Workspace(void* base) : base_(static_cast<char*>(base)) {}

  template <typename T>
  T* take(int64_t count) {
    char* const at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += blocks_for(count * static_cast<int64_t>(sizeof(T)), kAlignment) * kAlignment;
    return reinterpret_cast<T*>(at);
  }

  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kAlignment = 256;
  char* base_;
  int64_t used_ = 0;
};

// All [tokens, batch, ...]; a null one is not needed.
template <typename T>
struct ForwardBuffers {
  T *normed, *hidden, *sum;
  RowStatistics* statistics;  // [batch, tokens]

  ForwardBuffers(const Problem& problem, bool keep, Workspace* from) {
    const int64_t rows = problem.batch * problem.tokens;
    const bool pre_rms = problem.norm == kPsClusterPreRms;
    normed = from->take<T>(rows * problem.dim);
    hidden = from->take<T>(rows * problem.hidden);
    sum = !keep && !norm_is_fused(problem) ? from->take<T>(rows * problem.dim) : nullptr;
    statistics = pre_rms ? from->take<RowStatistics>(rows) : nullptr;
  }
};

template <typename T>
struct BackwardBuffers {
  T* normed;            // what the tokens' networks read; later the gradient of what the first norm read or gave
  T* dsum;              // gradient of what the second norm was applied to (post_ln)
  T* dnormed;           // gradient of what the tokens' networks read
  T *hidden, *dinner;
  T *inner, *sum;       // where they were not kept
  RowStatistics* statistics;  // [batch, tokens]
  float* parts;         // of sums over rows

  BackwardBuffers(const Problem& problem, bool keep, Workspace* from) {
    const int64_t rows = problem.batch * problem.tokens;
    const int64_t inner_values = rows * inner_width(problem);
    normed = from->take<T>(rows * problem.dim);
    dsum = problem.norm == kPsClusterPostLn ? from->take<T>(rows * problem.dim) : nullptr;
    dnormed = from->take<T>(rows * problem.dim);
    hidden = from->take<T>(rows * problem.hidden);
    dinner = from->take<T>(inner_values);
    inner = keep ? nullptr : from->take<T>(inner_values);
    sum = keep ? nullptr : from->take<T>(rows * problem.dim);
    statistics = from->take<RowStatistics>(rows);
    const int64_t widest = inner_width(problem) > problem.dim ? inner_width(problem) : problem.dim;
    const int64_t of_norms = 2 * row_chunks(rows).chunks * problem.dim;
    const int64_t of_biases = problem.tokens * row_chunks(problem.batch).chunks * widest;
    parts = from->take<float>(of_norms > of_biases ? of_norms : of_biases);
  }
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_WORKSPACE_CUH_
