// Sums over rows in two stages of fixed order: parts of at most 128 chunks of rows, then the chunks' sums one after the other.
//
// How rows are cut depends on their number only, so a sum has the same bits on every device.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_COLUMN_SUMS_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_COLUMN_SUMS_CUH_

#include "ops/rankmixer_cuda/norm.cuh"

namespace ps_cluster::rankmixer_cuda {

struct RowChunks {
  int64_t rows, rows_in_chunk;
  int chunks;  // at least 1
};

inline RowChunks row_chunks(int64_t rows) {
  const int64_t each = rows <= 128 * 256 ? 256 : blocks_for(rows, 128);
  const int64_t chunks = blocks_for(rows, each);
  return {rows, each, static_cast<int>(chunks == 0 ? 1 : chunks)};
}

constexpr int kRowsAtOnce = kThreads / kWarp;
constexpr size_t kColumnSumsShared = kThreads * sizeof(float);

// Sum over this block's chunk of term(row, column) in warp 0's lanes, other warps get nothing of use. A block has 32
// columns; warp w takes each eighth row from the w-th.
template <typename Term>
__device__ inline float chunk_sum(const RowChunks& chunks, bool inside, Term term, float* shared) {
  const int64_t first = chunks.rows_in_chunk * blockIdx.y;
  const int64_t end = min(first + chunks.rows_in_chunk, chunks.rows);
  float sum = 0;
  if (inside) {
    for (int64_t row = first + warp(); row < end; row += kRowsAtOnce) sum += term(row);
  }
  __syncthreads();  // the sums before have been read
  shared[threadIdx.x] = sum;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int w = 0; w < kRowsAtOnce; ++w) total += shared[w * kWarp + lane()];
  return total;
}

// parts [tokens, chunks, columns]: sums over chunks of the rows of each token. Blocks: (columns / 32, chunks, tokens).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    bias_parts_kernel(RowChunks chunks, int64_t columns, const T* in, int64_t token_stride, int64_t row_stride,
                      float* parts) {
  PS_CLUSTER_SHARED(shared);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane();
  const T* from = in + blockIdx.z * token_stride + column;
  const float sum = chunk_sum(
      chunks, column < columns, [&](int64_t row) { return to_float(from[row * row_stride]); },
      reinterpret_cast<float*>(shared));
  if (warp() == 0 && column < columns) {
    parts[(static_cast<int64_t>(blockIdx.z) * chunks.chunks + blockIdx.y) * columns + column] = sum;
  }
}

// parts [2, chunks, dim]: of dout * norm(in), and of dout (with kLayer only). Blocks: (dim / 32, chunks, 1).
template <Norm norm, Form in_form, Form dout_form, typename T>
__global__ void __launch_bounds__(kThreads)
    norm_parts_kernel(BlockShape shape, RowChunks chunks, Rows<const T> in, Rows<const T> dout,
                      const RowStatistics* statistics, float* parts) {
  PS_CLUSTER_SHARED(shared);
  float* const sums = reinterpret_cast<float*>(shared);
  const int column = blockIdx.x * kWarp + lane();
  const bool inside = column < shape.dim;
  const auto gradient = [&](int64_t row) {
    float grad[1];
    load_row<dout_form>(dout, shape, row / shape.tokens, static_cast<int>(row % shape.tokens), column, grad);
    return grad[0];
  };
  const float along = chunk_sum(
      chunks, inside,
      [&](int64_t row) {
        float value[1];
        load_row<in_form>(in, shape, row / shape.tokens, static_cast<int>(row % shape.tokens), column, value);
        return gradient(row) * ((value[0] - statistics[row].mean) * statistics[row].scale);
      },
      sums);
  const bool ours = warp() == 0 && inside;
  if (ours) parts[static_cast<int64_t>(blockIdx.y) * shape.dim + column] = along;
  if constexpr (norm == Norm::kLayer) {
    const float level = chunk_sum(chunks, inside, gradient, sums);
    if (ours) parts[(static_cast<int64_t>(chunks.chunks) + blockIdx.y) * shape.dim + column] = level;
  }
}

// out [groups, columns]: sums of parts [groups, chunks, columns] over the chunks. Blocks: (columns / 256, 1, groups).
template <typename T>
__global__ void __launch_bounds__(kThreads) finish_sums_kernel(int chunks, int64_t columns, const float* parts, T* out) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  const float* from = parts + static_cast<int64_t>(blockIdx.z) * chunks * columns + column;
  float sum = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) sum += from[chunk * columns];
  from_float(sum, out + static_cast<int64_t>(blockIdx.z) * columns + column);
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_COLUMN_SUMS_CUH_
