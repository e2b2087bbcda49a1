// Norms of rows, with the mixing of tokens where one stands before them; a row is read again from the cache for each pass.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_CUH_

#include "ops/rankmixer_cuda/rows.cuh"

namespace ps_cluster::rankmixer_cuda {

enum class Norm { kLayer, kRms };

// A row's norm is (value - mean) * scale; with kRms mean is 0.
struct RowStatistics {
  float mean, scale;
};

// Two passes: the variance of centred values loses nothing to their mean.
template <Norm norm, Form form, int V, typename T>
__device__ inline RowStatistics row_statistics(const Rows<const T>& in, const BlockShape& shape, int64_t b, int t,
                                               float epsilon) {
  float mean = 0;
  if constexpr (norm == Norm::kLayer) {
    mean = row_sum<V>(shape.dim, [&](int i) {
      float values[V], sum = 0;
      load_row<form>(in, shape, b, t, i, values);
#pragma unroll
      for (int e = 0; e < V; ++e) sum += values[e];
      return sum;
    });
    mean /= static_cast<float>(shape.dim);
  }
  const float squares = row_sum<V>(shape.dim, [&](int i) {
    float values[V], sum = 0;
    load_row<form>(in, shape, b, t, i, values);
#pragma unroll
    for (int e = 0; e < V; ++e) sum += (values[e] - mean) * (values[e] - mean);
    return sum;
  });
  return {mean, rsqrtf(squares / static_cast<float>(shape.dim) + epsilon)};
}

// out = norm(in) * gamma + beta; beta only with kLayer.
template <Norm norm, Form form, int V, typename T>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(BlockShape shape, Rows<const T> in, const T* gamma, const T* beta, float epsilon, Rows<T> out) {
  for_row_of_warp(shape, [&](int64_t b, int t) {
    const RowStatistics of = row_statistics<norm, form, V>(in, shape, b, t, epsilon);
    for (int i = lane() * V; i < shape.dim; i += kWarp * V) {
      float values[V], scale[V], shift[V] = {};
      load_row<form>(in, shape, b, t, i, values);
      load<V>(gamma + i, scale);
      if constexpr (norm == Norm::kLayer) load<V>(beta + i, shift);
#pragma unroll
      for (int e = 0; e < V; ++e) values[e] = (values[e] - of.mean) * of.scale * scale[e] + shift[e];
      store<V>(values, out.at(b, t) + i);
    }
  });
}

// statistics [batch, tokens] of the plain rows.
template <Norm norm, int V, typename T>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(BlockShape shape, Rows<const T> in, float epsilon, RowStatistics* statistics) {
  for_row_of_warp(shape, [&](int64_t b, int t) {
    const RowStatistics of = row_statistics<norm, Form::kPlain, V>(in, shape, b, t, epsilon);
    if (lane() == 0) statistics[b * shape.tokens + t] = of;
  });
}

// sum = x + mix(rms(x) * gamma1), normed = rms(sum) * gamma2; the statistics are those of x.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads)
    mix_rms_kernel(BlockShape shape, Rows<const T> x, const RowStatistics* statistics, const T* gamma1, const T* gamma2,
                   float epsilon, Rows<T> sum, Rows<T> normed) {
  for_row_of_warp(shape, [&](int64_t b, int t) {
    const float squares = row_sum<V>(shape.dim, [&](int i) {
      float values[V], mixed[V], scale[V], result = 0;
      load_row<Form::kPlain>(x, shape, b, t, i, values);
      load_row<Form::kMixed>(x, shape, b, t, i, mixed);
      load<V>(gamma1 + t * shape.head + i % shape.head, scale);
      const float row_scale = statistics[b * shape.tokens + i / shape.head].scale;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        values[e] = rounded<T>(values[e] + mixed[e] * row_scale * scale[e]);
        result += values[e] * values[e];
      }
      store<V>(values, sum.at(b, t) + i);
      return result;
    });
    const float scale = rsqrtf(squares / static_cast<float>(shape.dim) + epsilon);
    for (int i = lane() * V; i < shape.dim; i += kWarp * V) {
      float values[V], gamma[V];
      load<V>(sum.at(b, t) + i, values);  // what this same lane stored
      load<V>(gamma2 + i, gamma);
#pragma unroll
      for (int e = 0; e < V; ++e) values[e] = values[e] * scale * gamma[e];
      store<V>(values, normed.at(b, t) + i);
    }
  });
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_CUH_
