// The sparse experts and their gradient on the CPU.
#include "ops/rankmixer/experts/backward.h"
#include "ops/rankmixer/experts/forward.h"
#include "ops/rankmixer/experts/pairs.h"
#include "ops/rankmixer/kernels/block_arguments.h"
#include "ops/rankmixer/kernels/experts_arguments.h"
#include "ops/rankmixer/kernels/large_tensors.h"
#include "ops/rankmixer/kernels/pool_executor.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class SparseExperts : public tensorflow::OpKernel {
 public:
  explicit SparseExperts(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadAttributes(context, &spec_));
    OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    rankmixer::ExpertsSpec spec = spec_;
    const rankmixer::Kernels& kernels = rankmixer::ChosenKernels();
    ExpertsArguments arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, 0, kernels, &spec));
    const PoolExecutor executor(context);
    const rankmixer::Pairs pairs(spec, arguments.inputs().gates, executor);
    const TensorShape kept = keep_ ? TensorShape({pairs.size(), spec.inner}) : TensorShape({0, 0});
    Tensor *y, *inner;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, context->input(0).shape(), &y));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, kept, &inner));
    rankmixer::ForwardExperts(spec, arguments.inputs(), pairs, {DataOf(y), DataOf(inner)}, kernels, executor);
  }

 private:
  rankmixer::ExpertsSpec spec_;
  bool keep_;
};

class SparseExpertsGrad : public tensorflow::OpKernel {
 public:
  explicit SparseExpertsGrad(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadAttributes(context, &spec_));
  }

  void Compute(OpKernelContext* context) override {
    constexpr int kFirst = 1, kInner = 8;
    rankmixer::ExpertsSpec spec = spec_;
    const rankmixer::Kernels& kernels = rankmixer::ChosenKernels();
    ExpertsArguments arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, kFirst, kernels, &spec));
    OP_REQUIRES_OK(context, CheckShape("dy", context->input(0), context->input(kFirst).shape()));
    const PoolExecutor executor(context);
    const rankmixer::Pairs pairs(spec, arguments.inputs().gates, executor);
    const Tensor& inner = context->input(kInner);
    const bool kept = inner.shape() != TensorShape({0, 0});
    if (kept) OP_REQUIRES_OK(context, CheckShape("kept_inner", inner, {pairs.size(), spec.inner}));
    Tensor* gradients[6];
    for (int i = 0; i < 6; ++i) {
      OP_REQUIRES_OK(context, AllocateOutput(context, i, context->input(kFirst + i).shape(), &gradients[i]));
    }
    const int64_t size = rankmixer::BackwardExpertsWorkspace(spec, pairs, executor.threads());
    Tensor workspace;
    OP_REQUIRES_OK(context, AllocateTemp(context, tensorflow::DT_FLOAT, {size}, &workspace));
    rankmixer::BackwardExperts(spec, arguments.inputs(), pairs,
                               {DataOf(context->input(0)), kept ? DataOf(inner) : nullptr},
                               {DataOf(gradients[0]), gradients[1]->flat<float>().data(), DataOf(gradients[2]),
                                DataOf(gradients[3]), DataOf(gradients[4]), DataOf(gradients[5])},
                               kernels, executor, workspace.flat<float>().data());
  }

 private:
  rankmixer::ExpertsSpec spec_;
};

#define REGISTER(type)                                                                                         \
  REGISTER_KERNEL_BUILDER(                                                                                     \
      Name("PsClusterSparseExperts").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), SparseExperts); \
  REGISTER_KERNEL_BUILDER(                                                                                     \
      Name("PsClusterSparseExpertsGrad").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), SparseExpertsGrad)
REGISTER(float);
REGISTER(tensorflow::bfloat16);
REGISTER(Eigen::half);
#undef REGISTER

}  // namespace
}  // namespace ps_cluster
