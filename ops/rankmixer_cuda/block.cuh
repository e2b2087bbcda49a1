// A block's forward and backward pass as steps.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_BLOCK_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_BLOCK_CUH_

#include <initializer_list>

#include "ops/rankmixer_cuda/steps.cuh"

namespace ps_cluster::rankmixer_cuda {

// Device pointers of a call; kept_* null: not kept.
struct ForwardCall {
  const Problem* problem;
  const void* x;
  const Weights* weights;
  const int64_t* seed;
  void *y, *kept_inner, *kept_sum, *workspace;
  Stream stream;
};
struct BackwardCall {
  const Problem* problem;
  const void *dy, *x;
  const Weights* weights;
  const int64_t* seed;
  const void *kept_inner, *kept_sum;
  void* dx;
  const Gradients* gradients;
  void* workspace;
  Stream stream;
};

// Both return a code of the CUDA runtime.
template <typename T>
int forward(const ForwardCall& call);
template <typename T>
int backward(const BackwardCall& call);

inline bool rows_are_wide(const Weights& w, std::initializer_list<const void*> others) {
  for (const void* pointer : others) {
    if (!aligned(pointer, 16)) return false;
  }
  return aligned(w.gamma1, 16) && aligned(w.beta1, 16) && aligned(w.gamma2, 16) && aligned(w.beta2, 16);
}

template <typename T, Precision precision>
int run_forward(const ForwardCall& call) {
  const Problem& problem = *call.problem;
  Workspace workspace(call.workspace);
  const ForwardBuffers<T> own(problem, call.kept_sum != nullptr, &workspace);
  const bool wide = rows_are_wide(*call.weights, {call.x, call.y, call.kept_sum, call.workspace});
  Steps<T, precision> steps(problem, *call.weights, call.seed, wide, call.stream);
  const BlockShape& shape = steps.shape();
  const auto x = batch_first(static_cast<const T*>(call.x), shape);
  const auto y = batch_first(static_cast<T*>(call.y), shape);
  const auto normed = token_first(own.normed, shape);
  const auto read_normed = token_first(static_cast<const T*>(own.normed), shape);
  T* const sum_data = call.kept_sum != nullptr ? static_cast<T*>(call.kept_sum) : own.sum;
  const auto sum = token_first(sum_data, shape);
  const auto read_sum = token_first(static_cast<const T*>(sum_data), shape);

  if (problem.norm == kPsClusterPostLn) {
    steps.template norm<Norm::kLayer, Form::kSum>(x, steps.w.gamma1, steps.w.beta1, normed);
  } else {
    steps.mix_rms(x, own.statistics, sum, normed);
  }
  steps.activate(own.normed, static_cast<T*>(call.kept_inner), own.hidden);
  if (problem.norm == kPsClusterPreRms) {
    steps.reduce(own.hidden, read_sum, y);
  } else if (norm_is_fused(problem)) {
    steps.reduce_and_norm(own.hidden, read_normed, sum, y);
  } else {
    steps.reduce(own.hidden, read_normed, sum);
    steps.template norm<Norm::kLayer, Form::kPlain>(read_sum, steps.w.gamma2, steps.w.beta2, y);
  }
  return steps.code();
}

template <typename T, Precision precision>
int run_backward(const BackwardCall& call) {
  const Problem& problem = *call.problem;
  const bool keep = call.kept_sum != nullptr;
  const bool post_ln = problem.norm == kPsClusterPostLn;
  Workspace workspace(call.workspace);
  const BackwardBuffers<T> own(problem, keep, &workspace);
  const bool wide = rows_are_wide(*call.weights, {call.dy, call.x, call.kept_sum, call.dx, call.workspace});
  Steps<T, precision> steps(problem, *call.weights, call.seed, wide, call.stream);
  const TypedWeights<T>& w = steps.w;
  const Gradients& to = *call.gradients;
  const BlockShape& shape = steps.shape();
  const auto x = batch_first(static_cast<const T*>(call.x), shape);
  const auto dy = batch_first(static_cast<const T*>(call.dy), shape);
  const auto dx = batch_first(static_cast<T*>(call.dx), shape);
  const auto normed = token_first(own.normed, shape);
  const auto read_normed = token_first(static_cast<const T*>(own.normed), shape);
  const auto read_dnormed = token_first(static_cast<const T*>(own.dnormed), shape);
  const auto sum = token_first(static_cast<const T*>(keep ? call.kept_sum : own.sum), shape);
  const T* const inner = keep ? static_cast<const T*>(call.kept_inner) : own.inner;
  const Rows<const T> none{};

  // What the networks read, and where it was not kept, what they computed.
  if (post_ln) {
    steps.template norm<Norm::kLayer, Form::kSum>(x, w.gamma1, w.beta1, normed);
  } else if (keep) {
    steps.template norm<Norm::kRms, Form::kPlain>(sum, w.gamma2, nullptr, normed);
  } else {
    steps.mix_rms(x, own.statistics, token_first(own.sum, shape), normed);
  }
  if (!keep) {
    steps.activate(own.normed, own.inner, own.hidden);
    if (post_ln) steps.reduce(own.hidden, read_normed, token_first(own.sum, shape));
  }

  // Back through the second norm (post_ln) and the networks.
  auto dsum = dy;
  if (post_ln) {
    steps.template norm_grad<Norm::kLayer, Form::kPlain, Form::kPlain>(sum, dy, w.gamma2, none,
                                                                       token_first(own.dsum, shape), own.statistics,
                                                                       own.parts, to.gamma2, to.beta2);
    dsum = token_first(static_cast<const T*>(own.dsum), shape);
  }
  steps.bias_sums(dsum, problem.dim, own.parts, to.b2);
  steps.activate_grad(dsum, inner, own.dinner, own.hidden);
  const auto hidden = steps.per_token(static_cast<const T*>(own.hidden), problem.hidden);
  const auto dinner = steps.per_token(static_cast<const T*>(own.dinner), inner_width(problem));
  steps.weight_grad(hidden, problem.hidden, dsum, problem.dim, to.w2);
  steps.bias_sums(dinner, inner_width(problem), own.parts, to.b1);
  steps.weight_grad(read_normed, problem.dim, dinner, inner_width(problem), to.w1);
  steps.reduce_grad(own.dinner, post_ln ? dsum : none, own.dnormed);

  // Back through what stands before the networks; `normed` is free by now.
  if (post_ln) {
    steps.template norm_grad<Norm::kLayer, Form::kSum, Form::kPlain>(
        x, read_dnormed, w.gamma1, none, normed, own.statistics, own.parts, to.gamma1, to.beta1);
    steps.unmix(read_normed, dx);
  } else {
    steps.template norm_grad<Norm::kRms, Form::kPlain, Form::kPlain>(
        sum, read_dnormed, w.gamma2, dy, normed, own.statistics, own.parts, to.gamma2, nullptr);
    steps.template norm_grad<Norm::kRms, Form::kPlain, Form::kMixed>(
        x, read_normed, w.gamma1, read_normed, dx, own.statistics, own.parts, to.gamma1, nullptr);
  }
  return steps.code();
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_BLOCK_CUH_
