// Registration of the fused RankMixer block and of its gradient.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {
namespace {

using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

constexpr char kNorm[] = "norm: {'post_ln', 'pre_rms'} = 'post_ln'";
constexpr char kActivation[] = "activation: {'gelu', 'gelu_tanh', 'swiglu'} = 'gelu'";

// Where the inputs of a block stand, counted from its x.
enum BlockInput { kX, kGamma1, kBeta1, kW1, kB1, kW2, kB2, kGamma2, kBeta2 };

struct BlockShape {
  DimensionHandle batch, tokens, dim, inner;
};

Status Fit(InferenceContext* c, int input, const std::vector<DimensionHandle>& wanted, const char* name) {
  ShapeHandle unused;
  const Status status = c->Merge(c->input(input), c->MakeShape(wanted), &unused);
  if (status.ok()) return status;
  return tensorflow::errors::InvalidArgument(name, ": expected the shape ", c->DebugString(c->MakeShape(wanted)),
                                             ", found ", c->DebugString(c->input(input)));
}

// What is known of the shapes of x and the weights, `first` being the position of x; all that can be wrong with them
// before values are there is found here.
Status CheckBlock(InferenceContext* c, int first, BlockShape* shape) {
  std::string norm, activation;
  TF_RETURN_IF_ERROR(c->GetAttr("norm", &norm));
  TF_RETURN_IF_ERROR(c->GetAttr("activation", &activation));
  ShapeHandle x, w2;
  const Status rank = c->WithRank(c->input(first + kX), 3, &x);
  if (!rank.ok()) {
    return tensorflow::errors::InvalidArgument("x: expected the shape [batch, tokens, dim], found ",
                                               c->DebugString(c->input(first + kX)));
  }
  const Status w2_rank = c->WithRank(c->input(first + kW2), 3, &w2);
  if (!w2_rank.ok()) {
    return tensorflow::errors::InvalidArgument("w2: expected the shape [tokens, hidden, dim], found ",
                                               c->DebugString(c->input(first + kW2)));
  }
  shape->batch = c->Dim(x, 0);
  shape->tokens = c->Dim(x, 1);
  shape->dim = c->Dim(x, 2);
  DimensionHandle hidden = c->Dim(w2, 1);
  if (activation == "swiglu") {
    TF_RETURN_IF_ERROR(c->Multiply(hidden, 2, &shape->inner));
  } else {
    shape->inner = hidden;
  }
  if (c->ValueKnown(shape->tokens) && c->ValueKnown(shape->dim)) {
    const int64_t tokens = c->Value(shape->tokens), dim = c->Value(shape->dim);
    if (tokens == 0 || dim == 0 || dim % tokens != 0) {
      return tensorflow::errors::InvalidArgument("x: expected a number of tokens that divides the width ", dim,
                                                 ", found ", tokens);
    }
  }
  const DimensionHandle beta = norm == "post_ln" ? shape->dim : c->MakeDim(0);
  TF_RETURN_IF_ERROR(Fit(c, first + kGamma1, {shape->dim}, "gamma1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kBeta1, {beta}, "beta1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kW1, {shape->tokens, shape->dim, shape->inner}, "w1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kB1, {shape->tokens, shape->inner}, "b1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kW2, {shape->tokens, hidden, shape->dim}, "w2"));
  TF_RETURN_IF_ERROR(Fit(c, first + kB2, {shape->tokens, shape->dim}, "b2"));
  TF_RETURN_IF_ERROR(Fit(c, first + kGamma2, {shape->dim}, "gamma2"));
  return Fit(c, first + kBeta2, {beta}, "beta2");
}

Status BlockShapes(InferenceContext* c) {
  BlockShape shape;
  TF_RETURN_IF_ERROR(CheckBlock(c, 0, &shape));
  bool keep;
  TF_RETURN_IF_ERROR(c->GetAttr("keep", &keep));
  c->set_output(0, c->MakeShape({shape.batch, shape.tokens, shape.dim}));
  if (keep) {
    c->set_output(1, c->MakeShape({shape.tokens, shape.batch, shape.inner}));
    c->set_output(2, c->MakeShape({shape.tokens, shape.batch, shape.dim}));
  } else {
    c->set_output(1, c->MakeShape({0, 0, 0}));
    c->set_output(2, c->MakeShape({0, 0, 0}));
  }
  return tensorflow::OkStatus();
}

Status BlockGradShapes(InferenceContext* c) {
  BlockShape shape;
  TF_RETURN_IF_ERROR(CheckBlock(c, 1, &shape));
  TF_RETURN_IF_ERROR(Fit(c, 0, {shape.batch, shape.tokens, shape.dim}, "dy"));
  for (int i = 0; i <= kBeta2; ++i) c->set_output(i, c->input(1 + i));
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("PsClusterRankmixerBlock")
    .Input("x: T")
    .Input("gamma1: T")
    .Input("beta1: T")
    .Input("w1: T")
    .Input("b1: T")
    .Input("w2: T")
    .Input("b2: T")
    .Input("gamma2: T")
    .Input("beta2: T")
    .Input("seed: int64")
    .Output("y: T")
    .Output("kept_inner: T")
    .Output("kept_sum: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr(kNorm)
    .Attr(kActivation)
    .Attr("epsilon: float = 1e-6")
    .Attr("dropout: float = 0.0")
    .Attr("keep: bool = true")
    .SetShapeFn(BlockShapes)
    .Doc(R"doc(
One block of RankMixer (arXiv 2507.15551): token mixing, residual, norm, a network of each token's own, residual, norm.

With `mix` the exchange of token and head (T heads a token), N1 and N2 the norms with gamma and beta, and
FFN_t(s) = act(s w1_t + b1_t) w2_t + b2_t:

  post_ln (the paper):              s = N1(mix(x) + x);  y = N2(FFN(s) + s);  N = LayerNorm
  pre_rms (arXiv 2602.06563's norm): u = x + mix(N1(x)); y = u + FFN(N2(u));  N = RMSNorm, without beta

act is gelu (by the error function), gelu_tanh, or swiglu: with a = s w1_t + b1_t of width 2 hidden, its first half g
and its second half v: silu(g) * v. All sums are accumulated in float32 whatever T is.

x: [batch, tokens, dim], tokens a divisor of dim.
gamma1, beta1, gamma2, beta2: [dim]; with pre_rms the betas are [0].
w1: [tokens, dim, inner]; b1: [tokens, inner]; inner = hidden, with swiglu 2 hidden.
w2: [tokens, hidden, dim]; b2: [tokens, dim].
seed: [2] with dropout, else not looked at. Which hidden units are dropped depends on it, on the token, the row and the
  unit only.
dropout: share of hidden units set to zero, the rest scaled by 1 / (1 - dropout).
keep: whether the gradient is to find what it needs of the two products. What is not kept it computes again.
kept_inner: s w1 + b1, [tokens, batch, inner]; kept_sum: what N2 was applied to, [tokens, batch, dim]; without keep
  [0, 0, 0].
)doc");

REGISTER_OP("PsClusterRankmixerBlockGrad")
    .Input("dy: T")
    .Input("x: T")
    .Input("gamma1: T")
    .Input("beta1: T")
    .Input("w1: T")
    .Input("b1: T")
    .Input("w2: T")
    .Input("b2: T")
    .Input("gamma2: T")
    .Input("beta2: T")
    .Input("seed: int64")
    .Input("kept_inner: T")
    .Input("kept_sum: T")
    .Output("dx: T")
    .Output("dgamma1: T")
    .Output("dbeta1: T")
    .Output("dw1: T")
    .Output("db1: T")
    .Output("dw2: T")
    .Output("db2: T")
    .Output("dgamma2: T")
    .Output("dbeta2: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr(kNorm)
    .Attr(kActivation)
    .Attr("epsilon: float = 1e-6")
    .Attr("dropout: float = 0.0")
    .SetShapeFn(BlockGradShapes)
    .Doc(R"doc(
Gradients of PsClusterRankmixerBlock's inputs, from the gradient dy of its y, its inputs and what it kept (or, where
kept_inner and kept_sum are [0, 0, 0], computed again).
)doc");

}  // namespace ps_cluster
