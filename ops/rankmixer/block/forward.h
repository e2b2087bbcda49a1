// The forward pass of a block.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_FORWARD_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_FORWARD_H_

#include <cstdint>

#include "ops/rankmixer/block/executor.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/spec.h"

namespace ps_cluster {
namespace rankmixer {

// A block on its way: what all parts of the work read.
struct Block {
  const BlockSpec& spec;
  const BlockInputs& inputs;
  const Kernels& kernels;
  // 1 / sqrt(mean square + epsilon) of the rows of x, [batch, tokens]; null but with kPreRms.
  const float* x_scales;

  Number factors() const { return spec.type == Number::kBfloat16 ? Number::kBfloat16 : Number::kFloat32; }
  // The weights and bias of a token.
  MatrixView w1(int64_t token, bool transposed) const;
  MatrixView w2(int64_t token, bool transposed) const;

  // What is normed before the network of a token: with kPostLayer mix(x) + x, with kPreRms x + mix(N1(x)). [dim]
  void NetworkSource(int64_t token, int64_t row, float* u) const;
  Moments NetworkMoments(const float* u) const;
  // The network's input s from u.
  void NetworkInput(const float* u, const Moments& moments, float* s) const;
  const float* network_gamma() const { return spec.norm == Norm::kPostLayer ? inputs.gamma1 : inputs.gamma2; }
};

// Where the results of rows of one token go: row i of them at i times the stride, in numbers of the spec's type.
// Null: nowhere.
struct TileOutputs {
  void* y;
  int64_t y_stride;
  void* inner;  // stride spec.inner
  void* sum;    // stride spec.dim
};

// Rows [row, row + rows) of one token, on this thread.
void ForwardTile(const Block& block, int64_t token, int64_t row, int64_t rows, const TileOutputs& outputs);

// The scales of x's rows; with kPreRms, else nothing.
void FindScales(const BlockSpec& spec, const void* x, const Kernels& kernels, const Executor& executor, float* scales);

// Numbers of FindScales' result.
int64_t ScalesSize(const BlockSpec& spec);

// The op's outputs; those that are not kept are null.
struct BlockOutputs {
  void* y;
  void* kept_inner;
  void* kept_sum;
};

// `scales` has room for ScalesSize numbers.
void Forward(const BlockSpec& spec, const BlockInputs& inputs, const BlockOutputs& outputs, const Kernels& kernels,
             const Executor& executor, float* scales);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_FORWARD_H_
