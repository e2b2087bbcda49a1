// The block for float16.
#include "ops/rankmixer_cuda/block.cuh"

namespace ps_cluster::rankmixer_cuda {

template <>
int forward<Half>(const ForwardCall& call) {
  return run_forward<Half, Precision::kOnce>(call);
}

template <>
int backward<Half>(const BackwardCall& call) {
  return run_backward<Half, Precision::kOnce>(call);
}

}  // namespace ps_cluster::rankmixer_cuda
