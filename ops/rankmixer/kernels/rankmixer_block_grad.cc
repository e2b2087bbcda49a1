// The block's gradient on the CPU.
#include "ops/rankmixer/block/backward.h"
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

class RankmixerBlockGrad : public tensorflow::OpKernel {
 public:
  explicit RankmixerBlockGrad(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadAttributes(context, &spec_));
  }

  void Compute(OpKernelContext* context) override {
    constexpr int kFirst = 1, kInner = 11, kSum = 12;
    rankmixer::BlockSpec spec = spec_;
    const rankmixer::Kernels& kernels = rankmixer::ChosenKernels();
    BlockArguments arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, kFirst, kernels, &spec));
    OP_REQUIRES_OK(context, CheckShape("dy", context->input(0), context->input(kFirst).shape()));
    const TensorShape nothing({0, 0, 0});
    const bool kept = context->input(kInner).shape() != nothing || context->input(kSum).shape() != nothing;
    if (kept) {
      OP_REQUIRES_OK(context, CheckShape("kept_inner", context->input(kInner), {spec.tokens, spec.batch, spec.inner}));
      OP_REQUIRES_OK(context, CheckShape("kept_sum", context->input(kSum), {spec.tokens, spec.batch, spec.dim}));
    }
    void* gradients[9];
    for (int i = 0; i < 9; ++i) {
      Tensor* output;
      OP_REQUIRES_OK(context, AllocateOutput(context, i, context->input(kFirst + i).shape(), &output));
      gradients[i] = DataOf(output);
    }
    Tensor workspace;
    const int64_t size = rankmixer::BackwardWorkspace(spec);
    OP_REQUIRES_OK(context, AllocateTemp(context, tensorflow::DT_FLOAT, {size}, &workspace));
    const auto data = [&](int i) { return DataOf(context->input(i)); };
    rankmixer::Backward(spec, arguments.inputs(), {data(0), kept ? data(kInner) : nullptr, kept ? data(kSum) : nullptr},
                        {gradients[0], gradients[1], gradients[2], gradients[3], gradients[4], gradients[5],
                         gradients[6], gradients[7], gradients[8]},
                        kernels, PoolExecutor(context), workspace.flat<float>().data());
  }

 private:
  rankmixer::BlockSpec spec_;
};

#define REGISTER(type)                                                                                      \
  REGISTER_KERNEL_BUILDER(                                                                                  \
      Name("PsClusterRankmixerBlockGrad").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), RankmixerBlockGrad)
REGISTER(float);
REGISTER(tensorflow::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ps_cluster
