// The block for float32; the problem says how its products are made.
#include "ops/rankmixer_cuda/block.cuh"

namespace ps_cluster::rankmixer_cuda {

template <>
int forward<float>(const ForwardCall& call) {
  return call.problem->tf32 != 0 ? run_forward<float, Precision::kOnce>(call)
                                 : run_forward<float, Precision::kSplitTf32>(call);
}

template <>
int backward<float>(const BackwardCall& call) {
  return call.problem->tf32 != 0 ? run_backward<float, Precision::kOnce>(call)
                                 : run_backward<float, Precision::kSplitTf32>(call);
}

}  // namespace ps_cluster::rankmixer_cuda
