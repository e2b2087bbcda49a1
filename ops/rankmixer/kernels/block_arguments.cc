#include "ops/rankmixer/kernels/block_arguments.h"

#include <cmath>

namespace ps_cluster {

using rankmixer::Activation;
using rankmixer::BlockSpec;
using rankmixer::Norm;
using rankmixer::Number;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

Status ReadAttributes(tensorflow::OpKernelConstruction* context, BlockSpec* spec) {
  std::string norm, activation;
  tensorflow::DataType type;
  TF_RETURN_IF_ERROR(context->GetAttr("norm", &norm));
  TF_RETURN_IF_ERROR(context->GetAttr("activation", &activation));
  TF_RETURN_IF_ERROR(context->GetAttr("epsilon", &spec->epsilon));
  TF_RETURN_IF_ERROR(context->GetAttr("dropout", &spec->dropout));
  TF_RETURN_IF_ERROR(context->GetAttr("T", &type));
  if (!(spec->epsilon > 0.0f) || std::isinf(spec->epsilon)) {
    return InvalidArgument("epsilon: expected a number above 0, found ", spec->epsilon);
  }
  if (!(spec->dropout >= 0.0f && spec->dropout < 1.0f)) {
    return InvalidArgument("dropout: expected a share from 0 to below 1, found ", spec->dropout);
  }
  spec->norm = norm == "post_ln" ? Norm::kPostLayer : Norm::kPreRms;
  spec->activation = activation == "gelu"        ? Activation::kGelu
                     : activation == "gelu_tanh" ? Activation::kGeluTanh
                                                 : Activation::kSwiglu;
  spec->type = type == tensorflow::DT_FLOAT      ? Number::kFloat32
               : type == tensorflow::DT_BFLOAT16 ? Number::kBfloat16
                                                 : Number::kFloat16;
  return tensorflow::OkStatus();
}

const void* DataOf(const Tensor& tensor) { return tensor.NumElements() == 0 ? nullptr : tensor.tensor_data().data(); }

void* DataOf(Tensor* tensor) { return const_cast<void*>(DataOf(static_cast<const Tensor&>(*tensor))); }

Status CheckShape(const char* name, const Tensor& tensor, const TensorShape& expected) {
  if (tensor.shape() == expected) return tensorflow::OkStatus();
  return InvalidArgument(name, ": expected the shape ", expected.DebugString(), ", found ",
                         tensor.shape().DebugString());
}

Status BlockArguments::Read(tensorflow::OpKernelContext* context, int first, const rankmixer::Kernels& kernels,
                            BlockSpec* spec) {
  const Tensor& x = context->input(first);
  const Tensor& w2 = context->input(first + 5);
  if (x.dims() != 3) {
    return InvalidArgument("x: expected the shape [batch, tokens, dim], found ", x.shape().DebugString());
  }
  if (w2.dims() != 3) {
    return InvalidArgument("w2: expected the shape [tokens, hidden, dim], found ", w2.shape().DebugString());
  }
  spec->batch = x.dim_size(0);
  spec->tokens = x.dim_size(1);
  spec->dim = x.dim_size(2);
  spec->hidden = w2.dim_size(1);
  spec->inner = spec->activation == Activation::kSwiglu ? 2 * spec->hidden : spec->hidden;
  if (spec->tokens == 0 || spec->dim == 0 || spec->dim % spec->tokens != 0) {
    return InvalidArgument("x: expected a number of tokens that divides the width ", spec->dim, ", found ",
                           spec->tokens);
  }
  const bool post = spec->norm == Norm::kPostLayer;
  const struct {
    const char* name;
    TensorShape shape;
    bool is_vector;  // or of vectors, which are widened
  } expected[] = {
      {"x", x.shape(), false},
      {"gamma1", {spec->dim}, true},
      {"beta1", {post ? spec->dim : 0}, true},
      {"w1", {spec->tokens, spec->dim, spec->inner}, false},
      {"b1", {spec->tokens, spec->inner}, true},
      {"w2", {spec->tokens, spec->hidden, spec->dim}, false},
      {"b2", {spec->tokens, spec->dim}, true},
      {"gamma2", {spec->dim}, true},
      {"beta2", {post ? spec->dim : 0}, true},
  };
  int64_t count = 0;
  for (int i = 0; i < 9; ++i) {
    TF_RETURN_IF_ERROR(CheckShape(expected[i].name, context->input(first + i), expected[i].shape));
    if (expected[i].is_vector) count += expected[i].shape.num_elements();
  }
  if (spec->dropout > 0.0f) {
    const Tensor& seed = context->input(first + 9);
    TF_RETURN_IF_ERROR(CheckShape("seed", seed, {2}));
    spec->seed[0] = static_cast<uint64_t>(seed.vec<int64_t>()(0));
    spec->seed[1] = static_cast<uint64_t>(seed.vec<int64_t>()(1));
  }
  if (spec->type != Number::kFloat32) {
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, {count}, &widened_));
  }
  const float* vectors[9] = {};
  int64_t at = 0;
  for (int i = 0; i < 9; ++i) {
    if (!expected[i].is_vector) continue;
    const Tensor& tensor = context->input(first + i);
    if (spec->type == Number::kFloat32) {
      vectors[i] = static_cast<const float*>(DataOf(tensor));
      continue;
    }
    float* const to = widened_.flat<float>().data() + at;
    kernels.widen(DataOf(tensor), spec->type, tensor.NumElements(), to);
    vectors[i] = tensor.NumElements() == 0 ? nullptr : to;
    at += tensor.NumElements();
  }
  inputs_ = {DataOf(x),  vectors[1], vectors[2], DataOf(context->input(first + 3)), vectors[4],
             DataOf(w2), vectors[6], vectors[7], vectors[8]};
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster
