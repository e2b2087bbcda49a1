// Registration of the sparse experts of a token and of their gradient.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {
namespace {

using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

constexpr char kActivation[] = "activation: {'gelu', 'gelu_tanh', 'swiglu'} = 'gelu'";

// Where the inputs of the experts stand, counted from the tokens.
enum ExpertsInput { kTokens, kGates, kW1, kB1, kW2, kB2 };

Status Fit(InferenceContext* c, int input, const std::vector<DimensionHandle>& wanted, const char* name) {
  ShapeHandle unused;
  const Status status = c->Merge(c->input(input), c->MakeShape(wanted), &unused);
  if (status.ok()) return status;
  return tensorflow::errors::InvalidArgument(name, ": expected the shape ", c->DebugString(c->MakeShape(wanted)),
                                             ", found ", c->DebugString(c->input(input)));
}

// What is known of the shapes of tokens, gates and weights, `first` being the position of the tokens, is checked; gives
// the shape of the tokens and the width of w1.
Status CheckExperts(InferenceContext* c, int first, ShapeHandle* tokens, DimensionHandle* inner) {
  std::string activation;
  bool tokens_first;
  TF_RETURN_IF_ERROR(c->GetAttr("activation", &activation));
  TF_RETURN_IF_ERROR(c->GetAttr("tokens_first", &tokens_first));
  ShapeHandle w2;
  const Status rank = c->WithRank(c->input(first + kTokens), 3, tokens);
  if (!rank.ok()) {
    return tensorflow::errors::InvalidArgument("tokens: expected the shape ",
                                               tokens_first ? "[tokens, batch, dim]" : "[batch, tokens, dim]",
                                               ", found ", c->DebugString(c->input(first + kTokens)));
  }
  const Status w2_rank = c->WithRank(c->input(first + kW2), 4, &w2);
  if (!w2_rank.ok()) {
    return tensorflow::errors::InvalidArgument("w2: expected the shape [tokens, experts, hidden, dim], found ",
                                               c->DebugString(c->input(first + kW2)));
  }
  const DimensionHandle count = c->Dim(*tokens, tokens_first ? 0 : 1), dim = c->Dim(*tokens, 2);
  const DimensionHandle experts = c->Dim(w2, 1), hidden = c->Dim(w2, 2);
  for (int i = 0; i < 4; ++i) {
    if (c->ValueKnown(c->Dim(w2, i)) && c->Value(c->Dim(w2, i)) == 0) {
      return tensorflow::errors::InvalidArgument("w2: expected no size that is 0, found ", c->DebugString(w2));
    }
  }
  *inner = hidden;
  if (activation == "swiglu") TF_RETURN_IF_ERROR(c->Multiply(hidden, 2, inner));
  TF_RETURN_IF_ERROR(Fit(c, first + kGates, {c->Dim(*tokens, 0), c->Dim(*tokens, 1), experts}, "gates"));
  TF_RETURN_IF_ERROR(Fit(c, first + kW1, {count, experts, dim, *inner}, "w1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kB1, {count, experts, *inner}, "b1"));
  TF_RETURN_IF_ERROR(Fit(c, first + kW2, {count, experts, hidden, dim}, "w2"));
  return Fit(c, first + kB2, {count, experts, dim}, "b2");
}

Status ExpertsShapes(InferenceContext* c) {
  ShapeHandle tokens;
  DimensionHandle inner;
  TF_RETURN_IF_ERROR(CheckExperts(c, 0, &tokens, &inner));
  bool keep;
  TF_RETURN_IF_ERROR(c->GetAttr("keep", &keep));
  c->set_output(0, tokens);
  c->set_output(1, keep ? c->MakeShape({c->UnknownDim(), inner}) : c->MakeShape({0, 0}));
  return tensorflow::OkStatus();
}

Status ExpertsGradShapes(InferenceContext* c) {
  ShapeHandle tokens;
  DimensionHandle inner;
  TF_RETURN_IF_ERROR(CheckExperts(c, 1, &tokens, &inner));
  TF_RETURN_IF_ERROR(Fit(c, 0, {c->Dim(tokens, 0), c->Dim(tokens, 1), c->Dim(tokens, 2)}, "dy"));
  for (int i = 0; i <= kB2; ++i) c->set_output(i, c->input(1 + i));
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("PsClusterSparseExperts")
    .Input("tokens: T")
    .Input("gates: float")
    .Input("w1: T")
    .Input("b1: T")
    .Input("w2: T")
    .Input("b2: T")
    .Input("seed: int64")
    .Output("y: T")
    .Output("kept_inner: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr(kActivation)
    .Attr("dropout: float = 0.0")
    .Attr("tokens_first: bool = false")
    .Attr("keep: bool = true")
    .SetShapeFn(ExpertsShapes)
    .Doc(R"doc(
The gated sum of each token's experts, of which only those are computed whose gate is not zero:

  y[b, t] = sum over e with gates[b, t, e] != 0 of gates[b, t, e] * FFN_te(tokens[b, t])

with FFN_te(s) = act(s w1_te + b1_te) w2_te + b2_te. act is gelu (by the error function), gelu_tanh, or swiglu, which
is silu(g) * v with g the first and v the second half of its argument of width 2 hidden. A row adds its experts in
order; all sums are accumulated in float32 whatever T is. What is not computed is not looked at: a token that is not
finite leaves no trace through an expert whose gate is zero. A gate that is not a number is not zero.

The gradient of a gate that is zero is given as 0. That is exact where gates are what a ReLU gives, since ReLU passes
no gradient on where it gives 0. All other gradients are exact whatever gates are.

tokens: [batch, tokens, dim], with tokens_first [tokens, batch, dim]; y the same.
gates: [batch, tokens, experts], with tokens_first [tokens, batch, experts].
w1: [tokens, experts, dim, inner]; b1: [tokens, experts, inner]; inner = hidden, with swiglu 2 hidden.
w2: [tokens, experts, hidden, dim]; b2: [tokens, experts, dim].
seed: [2] with dropout, else not looked at. Which hidden units are dropped depends on it, on the token, the expert, the
  row and the unit only.
dropout: share of hidden units set to zero, the rest scaled by 1 / (1 - dropout).
keep: whether the gradient is to find the argument of act. What is not kept it computes again.
kept_inner: that argument for each pair of an expert and a row that was computed, [pairs, inner]: token by token, of a
  token expert by expert, of an expert by ascending rows; without keep [0, 0].
)doc");

REGISTER_OP("PsClusterSparseExpertsGrad")
    .Input("dy: T")
    .Input("tokens: T")
    .Input("gates: float")
    .Input("w1: T")
    .Input("b1: T")
    .Input("w2: T")
    .Input("b2: T")
    .Input("seed: int64")
    .Input("kept_inner: T")
    .Output("dtokens: T")
    .Output("dgates: float")
    .Output("dw1: T")
    .Output("db1: T")
    .Output("dw2: T")
    .Output("db2: T")
    .Attr("T: {float, bfloat16, half}")
    .Attr(kActivation)
    .Attr("dropout: float = 0.0")
    .Attr("tokens_first: bool = false")
    .SetShapeFn(ExpertsGradShapes)
    .Doc(R"doc(
Gradients of PsClusterSparseExperts' inputs, from the gradient dy of its y, its inputs and what it kept (or, where
kept_inner is [0, 0], computed again). That of a gate that is zero is 0.
)doc");

}  // namespace ps_cluster
