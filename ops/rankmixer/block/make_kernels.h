// Fills the table of one set of instructions.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_MAKE_KERNELS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_MAKE_KERNELS_H_

#include "ops/rankmixer/block/activations.h"
#include "ops/rankmixer/block/gemm_float32.h"
#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/rows.h"

namespace ps_cluster {
namespace rankmixer {

template <class V>
void MultiplyAsFloat32(const Product& product, void* scratch) {
  MultiplyFloat32<V>(product, static_cast<float*>(scratch));
}

template <class V>
Kernels MakeKernels(const char* name) {
  Kernels kernels = {};
  kernels.name = name;
  kernels.fast_bfloat16 = false;
  kernels.scratch_bytes = kFloat32Scratch * static_cast<int64_t>(sizeof(float));
  kernels.multiply = &MultiplyAsFloat32<V>;
  kernels.widen = &Rows<V>::Widen;
  kernels.narrow = &Rows<V>::Narrow;
  kernels.gather_heads = &Rows<V>::GatherHeads;
  kernels.add_wide = &Rows<V>::AddWide;
  kernels.layer_moments = &Rows<V>::LayerMoments;
  kernels.rms_moments = &Rows<V>::RmsMoments;
  kernels.normalize = &Rows<V>::Normalize;
  kernels.normalize_gradient = &Rows<V>::NormalizeGradient;
  kernels.activate = &Activations<V>::Activate;
  kernels.activate_with_slope = &Activations<V>::ActivateWithSlope;
  kernels.swiglu = &Activations<V>::Swiglu;
  kernels.swiglu_gradient = &Activations<V>::SwigluGradient;
  kernels.multiply_by = &Rows<V>::MultiplyBy;
  kernels.add = &Rows<V>::Add;
  kernels.add_two = &Rows<V>::AddTwo;
  kernels.add_column_sums = &Rows<V>::AddColumnSums;
  return kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_MAKE_KERNELS_H_
