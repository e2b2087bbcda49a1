// What the sparse experts of each token compute, and on what.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_SPEC_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_SPEC_H_

#include <cstdint>

#include "ops/rankmixer/block/dropout.h"
#include "ops/rankmixer/block/number.h"
#include "ops/rankmixer/block/spec.h"

namespace ps_cluster {
namespace rankmixer {

// The formula is in the op's registration.
struct ExpertsSpec {
  Activation activation = Activation::kGelu;
  float dropout = 0.0f;
  uint64_t seed[2] = {0, 0};
  Number type = Number::kFloat32;
  bool tokens_first = false;
  int64_t batch = 0, tokens = 0, dim = 0, experts = 0;
  int64_t hidden = 0;
  int64_t inner = 0;  // width of w1: hidden, with swiglu 2 hidden

  // Which of all rows of all tokens that of this token is, in tokens, gates and results.
  int64_t Place(int64_t token, int64_t row) const { return tokens_first ? token * batch + row : row * tokens + token; }

  // As of a block with tokens * experts tokens.
  DropoutRow Dropped(int64_t token, int64_t expert, int64_t row) const {
    BlockSpec of;
    of.dropout = dropout;
    of.seed[0] = seed[0];
    of.seed[1] = seed[1];
    return DropoutRow(of, token * experts + expert, row);
  }
};

// tokens, w1 and w2 are of the spec's type, the rest float32 whatever that is. Where the rows of one token stand says
// ExpertsSpec::Place.
struct ExpertsInputs {
  const void* tokens;  // [batch, tokens, dim], or tokens first
  const float* gates;  // [batch, tokens, experts], or tokens first
  const void* w1;      // [tokens, experts, dim, inner]
  const float* b1;     // [tokens, experts, inner]
  const void* w2;      // [tokens, experts, hidden, dim]
  const float* b2;     // [tokens, experts, dim]
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_SPEC_H_
