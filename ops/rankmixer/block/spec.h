// What one block computes, and on what.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_SPEC_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_SPEC_H_

#include <cstdint>

#include "ops/rankmixer/block/number.h"

namespace ps_cluster {
namespace rankmixer {

enum class Norm { kPostLayer, kPreRms };
enum class Activation { kGelu, kGeluTanh, kSwiglu };

// The formulas are in the op's registration.
struct BlockSpec {
  Norm norm = Norm::kPostLayer;
  Activation activation = Activation::kGelu;
  float epsilon = 1e-6f;
  float dropout = 0.0f;
  uint64_t seed[2] = {0, 0};
  Number type = Number::kFloat32;
  int64_t batch = 0, tokens = 0, dim = 0;
  int64_t hidden = 0;
  int64_t inner = 0;  // width of w1: hidden, with swiglu 2 hidden

  int64_t head() const { return dim / tokens; }
};

// x, w1 and w2 are of the spec's type; the vectors are float32 whatever that is. The betas are null with kPreRms.
struct BlockInputs {
  const void* x;       // [batch, tokens, dim]
  const float* gamma1;  // [dim]
  const float* beta1;   // [dim]
  const void* w1;      // [tokens, dim, inner]
  const float* b1;     // [tokens, inner]
  const void* w2;      // [tokens, hidden, dim]
  const float* b2;     // [tokens, dim]
  const float* gamma2;  // [dim]
  const float* beta2;   // [dim]
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_SPEC_H_
