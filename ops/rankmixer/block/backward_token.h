// The backward pass of one token's network and norms, from the rows of all samples.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_TOKEN_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_TOKEN_H_

#include <cstdint>

#include "ops/rankmixer/block/backward.h"
#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/block/forward.h"

namespace ps_cluster {
namespace rankmixer {

// Sums over one token's rows, each [dim]; zero to begin with.
struct NormSums {
  float* gamma1;
  float* beta1;
  float* gamma2;
  float* beta2;
};

// Writes the gradients of the token's weights, adds to `sums`, and replaces the token's sources by their gradients.
// With kPreRms the norm before the mixing remains to be done: dgamma1 and the way back to x.
//
// The work of one token is shared among the executor's threads. Sums over rows are taken in an order that depends on
// the shape of the block only.
void BackwardToken(const Block& block, int64_t token, const BlockKept& kept, const BlockGradients& gradients,
                   const Executor& executor, const NormSums& sums);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_BACKWARD_TOKEN_H_
