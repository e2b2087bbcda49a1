// The block for bfloat16.
#include "ops/rankmixer_cuda/block.cuh"

namespace ps_cluster::rankmixer_cuda {

template <>
int forward<BFloat16>(const ForwardCall& call) {
  return run_forward<BFloat16, Precision::kOnce>(call);
}

template <>
int backward<BFloat16>(const BackwardCall& call) {
  return run_backward<BFloat16, Precision::kOnce>(call);
}

}  // namespace ps_cluster::rankmixer_cuda
