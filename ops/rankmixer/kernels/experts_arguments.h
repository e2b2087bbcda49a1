// Reads and checks the attributes and inputs that the sparse experts and their gradient share.
#ifndef PS_CLUSTER_OPS_RANKMIXER_KERNELS_EXPERTS_ARGUMENTS_H_
#define PS_CLUSTER_OPS_RANKMIXER_KERNELS_EXPERTS_ARGUMENTS_H_

#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/experts/spec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

// Fills in what the attributes say.
tensorflow::Status ReadAttributes(tensorflow::OpKernelConstruction* context, rankmixer::ExpertsSpec* spec);

// The inputs tokens to seed, tokens being input `first`; the biases as float32, in memory that this object holds.
class ExpertsArguments {
 public:
  // Completes `spec`, into which the attributes have been read.
  tensorflow::Status Read(tensorflow::OpKernelContext* context, int first, const rankmixer::Kernels& kernels,
                          rankmixer::ExpertsSpec* spec);

  const rankmixer::ExpertsInputs& inputs() const { return inputs_; }

 private:
  rankmixer::ExpertsInputs inputs_ = {};
  tensorflow::Tensor widened_[2];
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_KERNELS_EXPERTS_ARGUMENTS_H_
