// The forward pass of the sparse experts.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_FORWARD_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_FORWARD_H_

#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/experts/pairs.h"
#include "ops/rankmixer/experts/spec.h"

namespace ps_cluster {
namespace rankmixer {

// All of the spec's type.
struct ExpertsOutputs {
  void* y;           // laid out as the tokens are
  void* kept_inner;  // [pairs, inner]; null: not kept
};

// Work is shared by token and rows; each row adds its experts in order, so that no bit depends on how it is shared.
void ForwardExperts(const ExpertsSpec& spec, const ExpertsInputs& inputs, const Pairs& pairs,
                    const ExpertsOutputs& outputs, const Kernels& kernels, const Executor& executor);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_FORWARD_H_
