// The kernels in the instructions that every processor of the architecture has.
#include "ops/rankmixer/block/make_kernels.h"

namespace ps_cluster {
namespace rankmixer {

const Kernels* BaselineKernels() {
  static const Kernels kernels = MakeKernels<Baseline>("sse");
  return &kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster
