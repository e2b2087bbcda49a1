// Reads and checks the attributes and inputs that the block and its gradient share.
#ifndef PS_CLUSTER_OPS_RANKMIXER_KERNELS_BLOCK_ARGUMENTS_H_
#define PS_CLUSTER_OPS_RANKMIXER_KERNELS_BLOCK_ARGUMENTS_H_

#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/spec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

// Fills in what the attributes say.
tensorflow::Status ReadAttributes(tensorflow::OpKernelConstruction* context, rankmixer::BlockSpec* spec);

// The data of a tensor whatever its type; null where it has no element.
const void* DataOf(const tensorflow::Tensor& tensor);
void* DataOf(tensorflow::Tensor* tensor);

// An error that names the input where its shape is another.
tensorflow::Status CheckShape(const char* name, const tensorflow::Tensor& tensor,
                              const tensorflow::TensorShape& expected);

// The inputs x to seed, x being input `first`; the vectors as float32, in memory that this object holds.
class BlockArguments {
 public:
  // Completes `spec`, into which the attributes have been read.
  tensorflow::Status Read(tensorflow::OpKernelContext* context, int first, const rankmixer::Kernels& kernels,
                          rankmixer::BlockSpec* spec);

  const rankmixer::BlockInputs& inputs() const { return inputs_; }

 private:
  rankmixer::BlockInputs inputs_ = {};
  tensorflow::Tensor widened_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_KERNELS_BLOCK_ARGUMENTS_H_
