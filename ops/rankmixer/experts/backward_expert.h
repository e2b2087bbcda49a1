// The backward pass of one expert, from all rows that it computed.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_EXPERT_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_EXPERT_H_

#include "ops/rankmixer/experts/backward.h"
#include "ops/rankmixer/experts/expert.h"
#include "ops/rankmixer/experts/pairs.h"

namespace ps_cluster {
namespace rankmixer {

// Writes the gradients of the expert's weights and of its gates that are not zero, and to `ds` [pairs of the expert,
// dim] those of its rows of tokens. On this thread; sums over rows are taken in an order that depends on the shape and
// on which gates are zero only.
void BackwardExpert(const Expert& of, const Pairs& pairs, const ExpertsKept& kept, const ExpertsGradients& gradients,
                    float* ds);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_BACKWARD_EXPERT_H_
