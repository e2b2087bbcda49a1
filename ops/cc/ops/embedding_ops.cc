// Registration of the ops that move embeddings between workers and PS.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {

using tensorflow::Status;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("PsClusterRouteIds")
    .Input("header: int64")
    .Input("ids: num_features * int64")
    .Output("requests: num_ps * int64")
    .Output("positions: int32")
    .Attr("num_features: int >= 1")
    .Attr("num_ps: int >= 1")
    .Attr("table_of_feature: list(int)")
    .Attr("salts: list(int)")
    .SetShapeFn([](InferenceContext* c) {
      int num_features, num_ps;
      TF_RETURN_IF_ERROR(c->GetAttr("num_features", &num_features));
      TF_RETURN_IF_ERROR(c->GetAttr("num_ps", &num_ps));
      ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &unused));
      for (int f = 0; f < num_features; ++f) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + f), 1, &unused));
      }
      for (int p = 0; p <= num_ps; ++p) c->set_output(p, c->UnknownShapeOfRank(1));
      return tensorflow::OkStatus();
    })
    .Doc(R"doc(
De-duplicates the ids of all features of a group and cuts them by owning PS.

header: the first 5 words of a request: rank, step, batch rows, learning rate bits, event hour.
ids: per feature, int64 [ids of that feature].
requests: per PS, int64 [5 + tables + keys + (keys + 1) / 2]: header, keys per table, keys, each once, and how often
  each occurs, two uint32 in a word.
positions: int32 [ids of all features]: row of each id in the rows of all PS, one after the other.
)doc");

REGISTER_OP("PsClusterPull")
    .Input("tables: num_tables * resource")
    .Input("request: int64")
    .Output("rows: T")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .Attr("num_tables: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("optimizer: string")
    .Attr("optimizer_settings: list(float)")
    .Attr("initial_kinds: list(int)")
    .Attr("initial_scales: list(float)")
    .Attr("salts: list(int)")
    .Attr("seed: int")
    .Attr("training: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, dim));
      return tensorflow::OkStatus();
    })
    .Doc(R"doc(
Reads the embedding part of the rows that a request names.

An id without a row gives what it would start from when training (the row itself is written by
the push), and zeros or the table's cold value otherwise.

tables: native tables or TFRA tables of packed rows, float32 [embedding | slots | frequency | last step].
rows: [keys, dim], in the order of the request.
dim: width of the tables, of the widest tier.
optimizer, optimizer_settings, initial_kinds, initial_scales, salts, seed: how packed rows are made; native tables have
  their own.
)doc");

REGISTER_OP("PsClusterPush")
    .Input("tables: num_tables * resource")
    .Input("request: int64")
    .Input("gradients: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_tables: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("optimizer: string")
    .Attr("optimizer_settings: list(float)")
    .Attr("initial_kinds: list(int)")
    .Attr("initial_scales: list(float)")
    .Attr("salts: list(int)")
    .Attr("seed: int")
    .Attr("num_workers: int >= 1")
    .Attr("shared_name: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Applies gradients to the rows that a request names.

Waits until `num_workers` workers have pushed for the same step, sums their gradients in rank order,
divides by the rows of all batches and applies the optimiser once per key. Ends for all workers together.
A native table that evicts is swept a little afterwards.

gradients: [keys, dim]: of the summed (not averaged) loss of the worker's batch.
shared_name: names the buffer in which workers' gradients meet; one per group of tables.
)doc");

}  // namespace ps_cluster
