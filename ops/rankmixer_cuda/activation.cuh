// Activations of the hidden units, with their derivatives.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_ACTIVATION_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_ACTIVATION_CUH_

#include "ops/rankmixer_cuda/platform.cuh"

namespace ps_cluster::rankmixer_cuda {

struct ValueAndSlope {
  float value, slope;
};

// x Phi(x), Phi the normal distribution; `tanh_form`: its approximation by tanh.
__device__ inline ValueAndSlope gelu(float x, bool tanh_form) {
  if (tanh_form) {
    constexpr float kScale = 0.7978845608028654f, kCubic = 0.044715f;  // sqrt(2 / pi)
    const float square = x * x;
    const float t = tanhf(kScale * x * (1 + kCubic * square));
    return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kScale * (1 + 3 * kCubic * square)};
  }
  const float share = 0.5f * (1 + erff(x * 0.7071067811865476f));
  return {x * share, share + x * 0.3989422804014327f * expf(-0.5f * x * x)};
}

// x / (1 + e^-x).
__device__ inline ValueAndSlope silu(float x) {
  const float share = 1 / (1 + expf(-x));
  return {x * share, share * (1 + x * (1 - share))};
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_ACTIVATION_CUH_
