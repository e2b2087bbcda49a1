// Kernels of PsClusterRankmixerBlock and its gradient for GPUs: shapes, memory and the stream; all else is in the CUDA library.
#include <string>
#include <type_traits>
#include <vector>

#include "ops/rankmixer_cuda/rankmixer_cuda.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tsl/platform/tensor_float_32_utils.h"
#include "xla/stream_executor/stream.h"

// Tests register the same kernels for the CPU, with the emulator behind them.
#ifndef PS_CLUSTER_DEVICE
#define PS_CLUSTER_DEVICE tensorflow::DEVICE_GPU
#endif

namespace ps_cluster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Inputs of the block from its x on; the gradient's stand one further on, after dy.
enum BlockInput { kX, kGamma1, kBeta1, kW1, kB1, kW2, kB2, kGamma2, kBeta2, kSeed, kKeptInner, kKeptSum };
constexpr const char* kNames[] = {"x",  "gamma1", "beta1",  "w1",    "b1",   "w2",
                                  "b2", "gamma2", "beta2", "seed", "kept_inner", "kept_sum"};

template <typename T>
constexpr int kDtype = std::is_same_v<T, float>               ? kPsClusterFloat32
                       : std::is_same_v<T, tensorflow::bfloat16> ? kPsClusterBfloat16
                                                                 : kPsClusterFloat16;

void* stream_of(OpKernelContext* context) {
  if (context->op_device_context() == nullptr) return nullptr;  // a CPU
  return context->op_device_context()->stream()->platform_specific_handle().stream;
}

const void* address(const Tensor& tensor) { return tensor.NumElements() == 0 ? nullptr : tensor.data(); }
void* address(Tensor* tensor) { return tensor->NumElements() == 0 ? nullptr : tensor->data(); }

Status fits(const Tensor& tensor, const char* name, const TensorShape& wanted) {
  if (tensor.shape() == wanted) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(name, ": expected the shape ", wanted.DebugString(), ", found ",
                                             tensor.shape().DebugString());
}

// What block and gradient have in common.
template <typename T>
class BlockKernel : public OpKernel {
 public:
  explicit BlockKernel(OpKernelConstruction* context) : OpKernel(context) {
    std::string norm, activation;
    OP_REQUIRES_OK(context, context->GetAttr("norm", &norm));
    OP_REQUIRES_OK(context, context->GetAttr("activation", &activation));
    OP_REQUIRES_OK(context, context->GetAttr("epsilon", &problem_.epsilon));
    OP_REQUIRES_OK(context, context->GetAttr("dropout", &problem_.dropout));
    problem_.dtype = kDtype<T>;
    problem_.norm = norm == "post_ln" ? kPsClusterPostLn : kPsClusterPreRms;
    problem_.activation = activation == "gelu"        ? kPsClusterGelu
                          : activation == "gelu_tanh" ? kPsClusterGeluTanh
                                                      : kPsClusterSwiglu;
  }

 protected:
  // The problem of this call; `first`: position of x.
  Status problem(OpKernelContext* context, int first, PsClusterRankmixerProblem* result) const {
    const Tensor& x = context->input(first + kX);
    const Tensor& w2 = context->input(first + kW2);
    if (x.dims() != 3 || x.dim_size(1) == 0 || x.dim_size(2) == 0 || x.dim_size(2) % x.dim_size(1) != 0) {
      return tensorflow::errors::InvalidArgument(
          "x: expected the shape [batch, tokens, dim] with a number of tokens that divides dim, found ",
          x.shape().DebugString());
    }
    if (w2.dims() != 3 || w2.dim_size(1) == 0) {
      return tensorflow::errors::InvalidArgument("w2: expected the shape [tokens, hidden, dim], found ",
                                                 w2.shape().DebugString());
    }
    *result = problem_;
    // As TensorFlow's own products on this device.
    result->tf32 = tsl::tensor_float_32_execution_enabled();
    result->batch = x.dim_size(0);
    const int64_t tokens = result->tokens = x.dim_size(1), dim = result->dim = x.dim_size(2);
    const int64_t hidden = result->hidden = w2.dim_size(1), inner = inner_width(*result);
    const TensorShape beta({problem_.norm == kPsClusterPostLn ? dim : 0});
    const std::vector<TensorShape> wanted = {x.shape(),       {dim},
                                             beta,            {tokens, dim, inner},
                                             {tokens, inner}, {tokens, hidden, dim},
                                             {tokens, dim},   {dim},
                                             beta};
    for (int i = 0; i < static_cast<int>(wanted.size()); ++i) {
      TF_RETURN_IF_ERROR(fits(context->input(first + i), kNames[i], wanted[i]));
    }
    if (problem_.dropout > 0) TF_RETURN_IF_ERROR(fits(context->input(first + kSeed), kNames[kSeed], TensorShape({2})));
    return tensorflow::OkStatus();
  }

  static int64_t inner_width(const PsClusterRankmixerProblem& problem) {
    return problem.activation == kPsClusterSwiglu ? 2 * problem.hidden : problem.hidden;
  }

  static PsClusterRankmixerWeights weights(OpKernelContext* context, int first) {
    const auto at = [&](int i) { return address(context->input(first + i)); };
    return {at(kGamma1), at(kBeta1), at(kW1), at(kB1), at(kW2), at(kB2), at(kGamma2), at(kBeta2)};
  }

  static const int64_t* seed(OpKernelContext* context, int first) {
    return static_cast<const int64_t*>(address(context->input(first + kSeed)));
  }

  // Scratch memory of `bytes`, or the error that they stand for.
  static Status scratch(OpKernelContext* context, int64_t bytes, Tensor* result) {
    if (bytes < 0) return status(static_cast<int>(bytes));
    return context->allocate_temp(tensorflow::DT_INT8, TensorShape({bytes}), result);
  }

  static Status status(int code) {
    if (code == 0) return tensorflow::OkStatus();
    if (code < 0) return tensorflow::errors::InvalidArgument(ps_cluster_rankmixer_message(code));
    return tensorflow::errors::Internal("CUDA: ", ps_cluster_rankmixer_message(code));
  }

 private:
  PsClusterRankmixerProblem problem_ = {};
};

template <typename T>
class RankmixerBlockGpu : public BlockKernel<T> {
 public:
  explicit RankmixerBlockGpu(OpKernelConstruction* context) : BlockKernel<T>(context) {
    OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    PsClusterRankmixerProblem problem;
    OP_REQUIRES_OK(context, this->problem(context, 0, &problem));
    const TensorShape none({0, 0, 0});
    const TensorShape inner({problem.tokens, problem.batch, this->inner_width(problem)});
    Tensor *y, *kept_inner, *kept_sum, workspace;
    OP_REQUIRES_OK(context, context->allocate_output(0, context->input(kX).shape(), &y));
    OP_REQUIRES_OK(context, context->allocate_output(1, keep_ ? inner : none, &kept_inner));
    OP_REQUIRES_OK(context, context->allocate_output(
                                2, keep_ ? TensorShape({problem.tokens, problem.batch, problem.dim}) : none, &kept_sum));
    if (problem.batch == 0) return;
    const int64_t bytes = ps_cluster_rankmixer_forward_workspace(&problem, keep_);
    OP_REQUIRES_OK(context, this->scratch(context, bytes, &workspace));
    const PsClusterRankmixerWeights weights = this->weights(context, 0);
    OP_REQUIRES_OK(context, this->status(ps_cluster_rankmixer_forward(
                                &problem, address(context->input(kX)), &weights, this->seed(context, 0), address(y),
                                address(kept_inner), address(kept_sum), address(&workspace), bytes,
                                stream_of(context))));
  }

 private:
  bool keep_;
};

template <typename T>
class RankmixerBlockGradGpu : public BlockKernel<T> {
 public:
  using BlockKernel<T>::BlockKernel;

  void Compute(OpKernelContext* context) override {
    constexpr int kFirst = 1;
    PsClusterRankmixerProblem problem;
    OP_REQUIRES_OK(context, this->problem(context, kFirst, &problem));
    OP_REQUIRES_OK(context, fits(context->input(0), "dy", context->input(kFirst + kX).shape()));
    const Tensor& kept_inner = context->input(kFirst + kKeptInner);
    const Tensor& kept_sum = context->input(kFirst + kKeptSum);
    const TensorShape none({0, 0, 0});
    const bool keep = kept_inner.shape() != none;
    if (keep) {
      OP_REQUIRES_OK(context, fits(kept_inner, kNames[kKeptInner],
                                   TensorShape({problem.tokens, problem.batch, this->inner_width(problem)})));
      OP_REQUIRES_OK(context,
                     fits(kept_sum, kNames[kKeptSum], TensorShape({problem.tokens, problem.batch, problem.dim})));
    } else {
      OP_REQUIRES_OK(context, fits(kept_sum, kNames[kKeptSum], none));
    }
    Tensor* out[kBeta2 + 1];
    for (int i = 0; i <= kBeta2; ++i) {
      OP_REQUIRES_OK(context, context->allocate_output(i, context->input(kFirst + i).shape(), &out[i]));
    }
    const bool given = address(kept_inner) != nullptr;  // of an empty batch nothing is
    Tensor workspace;
    const int64_t bytes = ps_cluster_rankmixer_backward_workspace(&problem, given);
    OP_REQUIRES_OK(context, this->scratch(context, bytes, &workspace));
    const PsClusterRankmixerWeights weights = this->weights(context, kFirst);
    const PsClusterRankmixerGradients gradients = {
        address(out[kGamma1]), address(out[kBeta1]), address(out[kW1]),     address(out[kB1]),
        address(out[kW2]),     address(out[kB2]),    address(out[kGamma2]), address(out[kBeta2])};
    OP_REQUIRES_OK(context,
                   this->status(ps_cluster_rankmixer_backward(
                       &problem, address(context->input(0)), address(context->input(kFirst + kX)), &weights,
                       this->seed(context, kFirst), address(kept_inner), address(kept_sum), address(out[kX]),
                       &gradients, address(&workspace), bytes, stream_of(context))));
  }
};

#define REGISTER(T)                                                                                          \
  REGISTER_KERNEL_BUILDER(                                                                                   \
      Name("PsClusterRankmixerBlock").Device(PS_CLUSTER_DEVICE).TypeConstraint<T>("T"),                 \
      RankmixerBlockGpu<T>);                                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                                   \
      Name("PsClusterRankmixerBlockGrad").Device(PS_CLUSTER_DEVICE).TypeConstraint<T>("T"),             \
      RankmixerBlockGradGpu<T>);
REGISTER(float)
REGISTER(tensorflow::bfloat16)
REGISTER(Eigen::half)
#undef REGISTER

}  // namespace
}  // namespace ps_cluster
