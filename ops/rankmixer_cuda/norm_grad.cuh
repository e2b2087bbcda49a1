// Gradients through norms.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_GRAD_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_GRAD_CUH_

#include "ops/rankmixer_cuda/norm.cuh"

namespace ps_cluster::rankmixer_cuda {

// din = gradient of the norm's input from dout, that of its result, + more, and the statistics [batch, tokens] of the
// input's rows. in_form and dout_form: how `in` and `dout` are read.
template <Norm norm, Form in_form, Form dout_form, int V, typename T>
__global__ void __launch_bounds__(kThreads)
    norm_grad_kernel(BlockShape shape, Rows<const T> in, Rows<const T> dout, const T* gamma, float epsilon,
                     Rows<const T> more, Rows<T> din, RowStatistics* statistics) {
  for_row_of_warp(shape, [&](int64_t b, int t) {
    const RowStatistics of = row_statistics<norm, in_form, V>(in, shape, b, t, epsilon);
    if (lane() == 0) statistics[b * shape.tokens + t] = of;
    const auto read = [&](int i, float (&grad)[V], float (&normed)[V]) {
      float scale[V];
      load_row<in_form>(in, shape, b, t, i, normed);
      load_row<dout_form>(dout, shape, b, t, i, grad);
      load<V>(gamma + i, scale);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        normed[e] = (normed[e] - of.mean) * of.scale;
        grad[e] *= scale[e];
      }
    };
    float along = 0, level = 0;  // this lane's part of the sums of grad * normed and of grad
    for (int i = lane() * V; i < shape.dim; i += kWarp * V) {
      float grad[V], normed[V];
      read(i, grad, normed);
#pragma unroll
      for (int e = 0; e < V; ++e) along += grad[e] * normed[e], level += grad[e];
    }
    along = warp_sum(along) / static_cast<float>(shape.dim);
    level = norm == Norm::kLayer ? warp_sum(level) / static_cast<float>(shape.dim) : 0;
    for (int i = lane() * V; i < shape.dim; i += kWarp * V) {
      float grad[V], normed[V], other[V] = {};
      read(i, grad, normed);
      if (more.data != nullptr) load<V>(more.at(b, t) + i, other);
#pragma unroll
      for (int e = 0; e < V; ++e) grad[e] = (grad[e] - level - normed[e] * along) * of.scale + other[e];
      store<V>(grad, din.at(b, t) + i);
    }
  });
}

// out = mix(in) + in.
template <int V, typename T>
__global__ void __launch_bounds__(kThreads) unmix_kernel(BlockShape shape, Rows<const T> in, Rows<T> out) {
  for_row_of_warp(shape, [&](int64_t b, int t) {
    for (int i = lane() * V; i < shape.dim; i += kWarp * V) {
      float values[V];
      load_row<Form::kSum>(in, shape, b, t, i, values);
      store<V>(values, out.at(b, t) + i);
    }
  });
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_NORM_GRAD_CUH_
