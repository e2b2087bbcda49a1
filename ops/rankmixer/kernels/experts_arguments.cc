#include "ops/rankmixer/kernels/experts_arguments.h"

#include "ops/rankmixer/kernels/block_arguments.h"

namespace ps_cluster {

using rankmixer::Activation;
using rankmixer::ExpertsSpec;
using rankmixer::Number;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

Status ReadAttributes(tensorflow::OpKernelConstruction* context, ExpertsSpec* spec) {
  std::string activation;
  tensorflow::DataType type;
  TF_RETURN_IF_ERROR(context->GetAttr("activation", &activation));
  TF_RETURN_IF_ERROR(context->GetAttr("dropout", &spec->dropout));
  TF_RETURN_IF_ERROR(context->GetAttr("tokens_first", &spec->tokens_first));
  TF_RETURN_IF_ERROR(context->GetAttr("T", &type));
  if (!(spec->dropout >= 0.0f && spec->dropout < 1.0f)) {
    return InvalidArgument("dropout: expected a share from 0 to below 1, found ", spec->dropout);
  }
  spec->activation = activation == "gelu"        ? Activation::kGelu
                     : activation == "gelu_tanh" ? Activation::kGeluTanh
                                                 : Activation::kSwiglu;
  spec->type = type == tensorflow::DT_FLOAT      ? Number::kFloat32
               : type == tensorflow::DT_BFLOAT16 ? Number::kBfloat16
                                                 : Number::kFloat16;
  return tensorflow::OkStatus();
}

Status ExpertsArguments::Read(tensorflow::OpKernelContext* context, int first, const rankmixer::Kernels& kernels,
                              ExpertsSpec* spec) {
  const Tensor& tokens = context->input(first);
  const Tensor& gates = context->input(first + 1);
  const Tensor& w2 = context->input(first + 4);
  if (tokens.dims() != 3) {
    return InvalidArgument("tokens: expected the shape ",
                           spec->tokens_first ? "[tokens, batch, dim]" : "[batch, tokens, dim]", ", found ",
                           tokens.shape().DebugString());
  }
  if (w2.dims() != 4) {
    return InvalidArgument("w2: expected the shape [tokens, experts, hidden, dim], found ", w2.shape().DebugString());
  }
  spec->batch = tokens.dim_size(spec->tokens_first ? 1 : 0);
  spec->tokens = tokens.dim_size(spec->tokens_first ? 0 : 1);
  spec->dim = tokens.dim_size(2);
  spec->experts = w2.dim_size(1);
  spec->hidden = w2.dim_size(2);
  spec->inner = spec->activation == Activation::kSwiglu ? 2 * spec->hidden : spec->hidden;
  const int64_t inner = spec->inner;
  const struct {
    const char* name;
    TensorShape shape;
  } expected[] = {
      {"tokens", tokens.shape()},
      {"gates", {tokens.dim_size(0), tokens.dim_size(1), spec->experts}},
      {"w1", {spec->tokens, spec->experts, spec->dim, inner}},
      {"b1", {spec->tokens, spec->experts, inner}},
      {"w2", {spec->tokens, spec->experts, spec->hidden, spec->dim}},
      {"b2", {spec->tokens, spec->experts, spec->dim}},
  };
  if (w2.NumElements() == 0) {
    return InvalidArgument("w2: expected no size that is 0, found ", w2.shape().DebugString());
  }
  for (int i = 0; i < 6; ++i) {
    TF_RETURN_IF_ERROR(CheckShape(expected[i].name, context->input(first + i), expected[i].shape));
  }
  if (spec->dropout > 0.0f) {
    const Tensor& seed = context->input(first + 6);
    TF_RETURN_IF_ERROR(CheckShape("seed", seed, {2}));
    spec->seed[0] = static_cast<uint64_t>(seed.vec<int64_t>()(0));
    spec->seed[1] = static_cast<uint64_t>(seed.vec<int64_t>()(1));
  }
  const float* biases[2];
  for (int i = 0; i < 2; ++i) {
    const Tensor& bias = context->input(first + 3 + 2 * i);
    if (spec->type != Number::kFloat32) {
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, {bias.NumElements()}, &widened_[i]));
      kernels.widen(DataOf(bias), spec->type, bias.NumElements(), widened_[i].flat<float>().data());
    }
    biases[i] = static_cast<const float*>(DataOf(spec->type == Number::kFloat32 ? bias : widened_[i]));
  }
  inputs_ = {DataOf(tokens), static_cast<const float*>(DataOf(gates)), DataOf(context->input(first + 2)), biases[0],
             DataOf(w2),     biases[1]};
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster
