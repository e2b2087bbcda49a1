// Memory of large results, kept from step to step.
//
// A tensor of tens of MiB is mapped anew each step by the C library and given back after it, so each step pays again
// for the faults of its pages and for zeros that nobody reads: a quarter of a block's time with small batches and wide
// layers. Tensors of 2 MiB and more that are allocated here take a block that an earlier one has left, or a new one in
// pages of that size.
#ifndef PS_CLUSTER_OPS_RANKMIXER_KERNELS_LARGE_TENSORS_H_
#define PS_CLUSTER_OPS_RANKMIXER_KERNELS_LARGE_TENSORS_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

// As the context's functions of these names. What the memory holds is not told: whatever an earlier tensor held.
tensorflow::Status AllocateOutput(tensorflow::OpKernelContext* context, int index,
                                  const tensorflow::TensorShape& shape, tensorflow::Tensor** output);
tensorflow::Status AllocateTemp(tensorflow::OpKernelContext* context, tensorflow::DataType type,
                                const tensorflow::TensorShape& shape, tensorflow::Tensor* temp);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_KERNELS_LARGE_TENSORS_H_
