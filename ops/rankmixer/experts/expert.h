// One expert: a token's small network, on rows that are gathered from the batch.
#ifndef PS_CLUSTER_OPS_RANKMIXER_EXPERTS_EXPERT_H_
#define PS_CLUSTER_OPS_RANKMIXER_EXPERTS_EXPERT_H_

#include <cstdint>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/experts/spec.h"

namespace ps_cluster {
namespace rankmixer {

struct Expert {
  const ExpertsSpec& spec;
  const ExpertsInputs& inputs;
  const Kernels& kernels;
  int64_t token, expert;

  int64_t index() const { return token * spec.experts + expert; }
  Number factors() const { return spec.type == Number::kBfloat16 ? Number::kBfloat16 : Number::kFloat32; }
  MatrixView w1(bool transposed) const {
    return {At(inputs.w1, spec.type, index() * spec.dim * spec.inner), spec.inner, spec.type, transposed};
  }
  MatrixView w2(bool transposed) const {
    return {At(inputs.w2, spec.type, index() * spec.hidden * spec.dim), spec.dim, spec.type, transposed};
  }
  const float* b1() const { return inputs.b1 + index() * spec.inner; }
  const float* b2() const { return inputs.b2 + index() * spec.dim; }
  float gate(int64_t row) const { return inputs.gates[spec.Place(token, row) * spec.experts + expert]; }

  // The token's rows of `from`, which is laid out as the tokens are: to [count, dim; stride].
  void Gather(const void* from, const int64_t* rows, int64_t count, float* to, int64_t stride) const;

  // s w1 + b1 of gathered rows s [count, dim; s_stride]: `kept`, if not null, becomes that, [count, inner] of the spec's
  // type; `inner` [count, inner; inner_stride] begins with the hidden units.
  void HiddenUnits(const int64_t* rows, int64_t count, const float* s, int64_t s_stride, float* inner,
                   int64_t inner_stride, void* kept) const;
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_EXPERTS_EXPERT_H_
