// The backward pass of the sparse experts.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_H_

#include <cstdint>

#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/experts/pairs.h"
#include "ops/rankmixer/experts/spec.h"

namespace ps_cluster {
namespace rankmixer {

// The gradient of the result, and what the forward pass kept: null to compute it again.
struct ExpertsKept {
  const void* dy;
  const void* inner;
};

// Of the spec's type but for the gates', laid out as what they are gradients of.
struct ExpertsGradients {
  void* tokens;
  float* gates;
  void* w1;
  void* b1;
  void* w2;
  void* b2;
};

// float32 numbers of workspace that BackwardExperts needs with so many threads.
int64_t BackwardExpertsWorkspace(const ExpertsSpec& spec, const Pairs& pairs, int64_t threads);

void BackwardExperts(const ExpertsSpec& spec, const ExpertsInputs& inputs, const Pairs& pairs, const ExpertsKept& kept,
                     const ExpertsGradients& gradients, const Kernels& kernels, const Executor& executor,
                     float* workspace);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_H_
