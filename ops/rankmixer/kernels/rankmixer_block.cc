// The block on the CPU.
#include "ops/rankmixer/block/forward.h"
#include "ops/rankmixer/kernels/block_arguments.h"
#include "ops/rankmixer/kernels/large_tensors.h"
#include "ops/rankmixer/kernels/pool_executor.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class RankmixerBlock : public tensorflow::OpKernel {
 public:
  explicit RankmixerBlock(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadAttributes(context, &spec_));
    OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    rankmixer::BlockSpec spec = spec_;
    const rankmixer::Kernels& kernels = rankmixer::ChosenKernels();
    BlockArguments arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, 0, kernels, &spec));
    const TensorShape nothing({0, 0, 0});
    const TensorShape kept_inner = keep_ ? TensorShape({spec.tokens, spec.batch, spec.inner}) : nothing;
    const TensorShape kept_sum = keep_ ? TensorShape({spec.tokens, spec.batch, spec.dim}) : nothing;
    Tensor *y, *inner, *sum;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, context->input(0).shape(), &y));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, kept_inner, &inner));
    OP_REQUIRES_OK(context, AllocateOutput(context, 2, kept_sum, &sum));
    Tensor sources;
    OP_REQUIRES_OK(context, AllocateTemp(context, tensorflow::DT_FLOAT, {rankmixer::SourcesSize(spec)}, &sources));
    rankmixer::Forward(spec, arguments.inputs(), {DataOf(y), DataOf(inner), DataOf(sum)}, kernels,
                       PoolExecutor(context), sources.flat<float>().data());
  }

 private:
  rankmixer::BlockSpec spec_;
  bool keep_;
};

#define REGISTER(type)                                                                                  \
  REGISTER_KERNEL_BUILDER(                                                                              \
      Name("PsClusterRankmixerBlock").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), RankmixerBlock)
REGISTER(float);
REGISTER(tensorflow::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ps_cluster
