// The backward pass of a block.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_H_

#include <cstdint>

#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/spec.h"

namespace ps_cluster {
namespace rankmixer {

// The gradient of the block's result, and what the forward pass kept: null to compute it again.
struct BlockKept {
  const void* dy;
  const void* inner;
  const void* sum;
};

// All of the spec's type; the betas are null with kPreRms.
struct BlockGradients {
  void* x;
  void* gamma1;
  void* beta1;
  void* w1;
  void* b1;
  void* w2;
  void* b2;
  void* gamma2;
  void* beta2;
};

// float32 numbers of workspace that Backward needs.
int64_t BackwardWorkspace(const BlockSpec& spec);

void Backward(const BlockSpec& spec, const BlockInputs& inputs, const BlockKept& kept, const BlockGradients& gradients,
              const Kernels& kernels, const Executor& executor, float* workspace);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_H_
