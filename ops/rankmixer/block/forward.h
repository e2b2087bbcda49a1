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
  // What is normed before the network of a token: with kPostLayer mix(x) + x, with kPreRms x + mix(N1(x)).
  // [tokens, batch, dim]; the backward pass, which reads each row twice, then puts the row's gradient in its place.
  float* sources;

  Number factors() const { return spec.type == Number::kBfloat16 ? Number::kBfloat16 : Number::kFloat32; }
  // The weights and bias of a token.
  MatrixView w1(int64_t token, bool transposed) const;
  MatrixView w2(int64_t token, bool transposed) const;

  float* source(int64_t token, int64_t row) const { return sources + (token * spec.batch + row) * spec.dim; }
  Moments NetworkMoments(const float* u) const;
  // The network's input s from a source u.
  void NetworkInput(const float* u, const Moments& moments, float* s) const;
  const float* network_gamma() const { return spec.norm == Norm::kPostLayer ? inputs.gamma1 : inputs.gamma2; }
};

// Whether an array is so large that the caches will not hold it until it is read again.
inline bool IsLarge(int64_t count, Number type) { return count * SizeOf(type) >= 4 << 20; }

// To be called once streaming stores are to be seen by other threads.
inline void FinishStreams() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

// Rows that their memory is asked for ahead of their turn: rows of one token are far apart.
constexpr int64_t kRowsAhead = 4;

inline void PrefetchNumbers(const void* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(data) + at);
}

inline void PrefetchToWrite(void* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<char*>(data) + at, 1);
}

// Where the results of rows of one token go: row i of them at i times the stride, in numbers of the spec's type.
// Null: nowhere.
struct TileOutputs {
  void* y;
  int64_t y_stride;
  void* inner;  // stride spec.inner
  void* sum;    // stride spec.dim
  bool stream_y = false, stream_inner = false, stream_sum = false;  // not read again soon
};

// Rows [row, row + rows) of one token, on this thread.
void ForwardTile(const Block& block, int64_t token, int64_t row, int64_t rows, const TileOutputs& outputs);

// Fills in the sources of all tokens, sample by sample: the numbers of a sample are together, those of a token are not.
void FindSources(const Block& block, const Executor& executor);

// Numbers of the sources.
inline int64_t SourcesSize(const BlockSpec& spec) { return spec.tokens * spec.batch * spec.dim; }

// The op's outputs; those that are not kept are null.
struct BlockOutputs {
  void* y;
  void* kept_inner;
  void* kept_sum;
};

// `sources` has room for SourcesSize numbers.
void Forward(const BlockSpec& spec, const BlockInputs& inputs, const BlockOutputs& outputs, const Kernels& kernels,
             const Executor& executor, float* sources);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_FORWARD_H_
