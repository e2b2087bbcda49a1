// Rows of width dim of arrays that hold one per row of the batch and token, as they are or mixed.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_ROWS_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_ROWS_CUH_

#include "ops/rankmixer_cuda/types.cuh"

namespace ps_cluster::rankmixer_cuda {

struct BlockShape {
  int64_t batch;
  int tokens, dim, head;  // head = dim / tokens

  __host__ __device__ int64_t rows() const { return batch * tokens; }
};

// Row of the batch b and token t lies at data + b * batch_stride + t * token_stride.
template <typename T>
struct Rows {
  T* data;
  int64_t batch_stride, token_stride;

  __device__ T* at(int64_t b, int t) const { return data + b * batch_stride + t * token_stride; }
};

// x as [batch, tokens, dim], the layout of a block's input and result.
template <typename T>
Rows<T> batch_first(T* data, const BlockShape& shape) {
  return {data, static_cast<int64_t>(shape.tokens) * shape.dim, shape.dim};
}

// [tokens, batch, dim], the layout of what a token's own network reads and writes.
template <typename T>
Rows<T> token_first(T* data, const BlockShape& shape) {
  return {data, shape.dim, shape.batch * shape.dim};
}

enum class Form {
  kPlain,  // r
  kMixed,  // mix(r): value i of token t is value t * head + i % head of token i / head
  kSum     // mix(r) + r
};

// V values from index i of row (b, t); i a multiple of V, and with another form than kPlain head one as well.
template <Form form, int V, typename T>
__device__ inline void load_row(const Rows<const T>& rows, const BlockShape& shape, int64_t b, int t, int i,
                                float (&values)[V]) {
  if constexpr (form == Form::kPlain) {
    load<V>(rows.at(b, t) + i, values);
  } else {
    load<V>(rows.at(b, i / shape.head) + t * shape.head + i % shape.head, values);
    if constexpr (form == Form::kSum) {
      float more[V];
      load<V>(rows.at(b, t) + i, more);
#pragma unroll
      for (int e = 0; e < V; ++e) values[e] += more[e];
    }
  }
}

// Calls body(b, t) for the row of each warp: one warp a row, tokens of one row of the batch side by side, so that what they
// mix is in the cache.
template <typename Body>
__device__ inline void for_row_of_warp(const BlockShape& shape, Body body) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp();
  if (row < shape.rows()) body(row / shape.tokens, static_cast<int>(row % shape.tokens));
}

inline int64_t row_blocks(const BlockShape& shape) { return blocks_for(shape.rows(), kWarps); }

// Sum over a row, in a fixed order, of term(i), which returns the sum of terms i to i + V - 1.
template <int V, typename Term>
__device__ inline float row_sum(int dim, Term term) {
  float sum = 0;
  for (int i = lane() * V; i < dim; i += kWarp * V) sum += term(i);
  return warp_sum(sum);
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_ROWS_CUH_
