// Registration of the look-ups in frozen tables.
#include <string>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

std::string Name(const std::vector<std::string>& names, size_t piece) {
  return piece < names.size() ? names[piece] : absl::StrCat("input ", piece);
}

// Merges the batch of an input of rank `least` to `most` into `batch`.
Status MergeBatch(InferenceContext* c, ShapeHandle shape, int least, int most, const std::string& name,
                  const char* expected, DimensionHandle* batch) {
  if (!c->RankKnown(shape)) return tensorflow::OkStatus();
  const int rank = c->Rank(shape);
  DimensionHandle merged;
  if (rank < least || rank > most || !c->Merge(*batch, c->Dim(shape, 0), &merged).ok()) {
    return InvalidArgument(name, ": expected the shape ", expected, " with the batch of the other inputs, ",
                           c->DebugString(*batch), ", found ", c->DebugString(shape));
  }
  *batch = merged;
  return tensorflow::OkStatus();
}

Status ConcatShapes(InferenceContext* c) {
  std::vector<ShapeHandle> ids, lengths, given;
  TF_RETURN_IF_ERROR(c->input("ids", &ids));
  TF_RETURN_IF_ERROR(c->input("lengths", &lengths));
  TF_RETURN_IF_ERROR(c->input("given", &given));
  std::vector<std::string> names, poolings;
  int64_t parts, width;
  TF_RETURN_IF_ERROR(c->GetAttr("names", &names));
  TF_RETURN_IF_ERROR(c->GetAttr("poolings", &poolings));
  TF_RETURN_IF_ERROR(c->GetAttr("parts", &parts));
  TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
  DimensionHandle batch = c->UnknownDim();
  size_t list = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i >= poolings.size() || poolings[i] == "id") {
      TF_RETURN_IF_ERROR(MergeBatch(c, ids[i], 1, 1, Name(names, i), "[batch]", &batch));
      continue;
    }
    TF_RETURN_IF_ERROR(MergeBatch(c, ids[i], 2, 2, Name(names, i), "[batch, length]", &batch));
    if (list < lengths.size()) {
      TF_RETURN_IF_ERROR(MergeBatch(c, lengths[list++], 1, 1, Name(names, i) + "'s lengths", "[batch]", &batch));
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const char* expected = "[batch] or [batch, width]";
    TF_RETURN_IF_ERROR(MergeBatch(c, given[i], 1, 2, Name(names, ids.size() + i), expected, &batch));
  }
  c->set_output(0, c->MakeShape({parts, batch, width}));
  return tensorflow::OkStatus();
}

Status SequenceShapes(InferenceContext* c) {
  DimensionHandle batch = c->UnknownDim();
  TF_RETURN_IF_ERROR(MergeBatch(c, c->input(0), 2, 2, "ids", "[batch, length]", &batch));
  TF_RETURN_IF_ERROR(MergeBatch(c, c->input(1), 1, 1, "lengths", "[batch]", &batch));
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 2, &rows));
  const DimensionHandle longest = c->UnknownDim();
  c->set_output(0, c->MakeShape({batch, longest, c->Dim(rows, 1)}));
  c->set_output(1, c->MakeShape({batch, longest}));
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("PsClusterLookupConcat")
    .Input("ids: num_features * int64")
    .Input("lengths: num_lists * int64")
    .Input("given: num_given * float")
    .Input("keys: num_tables * int64")
    .Input("starts: num_tables * Index")
    .Input("rows: num_tables * T")
    .Input("scales: num_scales * float")
    .Output("matrix: float")
    .Attr("num_features: int >= 0")
    .Attr("num_lists: int >= 0")
    .Attr("num_given: int >= 0")
    .Attr("num_tables: int >= 0")
    .Attr("T: {float, half, int8} = DT_FLOAT")
    .Attr("num_scales: int >= 0 = 0")
    .Attr("Index: {int32, int64} = DT_INT32")
    .Attr("tables: list(int)")
    .Attr("poolings: list({'id', 'sum', 'mean', 'sqrtn'})")
    .Attr("max_lengths: list(int)")
    .Attr("signed_log: list(bool)")
    .Attr("segments: list(int)")
    .Attr("parts: int >= 1")
    .Attr("width: int >= 1")
    .Attr("names: list(string)")
    .SetShapeFn(ConcatShapes)
    .Doc(R"doc(
All inputs of a ranker side by side: ids looked up in frozen tables, lists of them pooled, given values in their places.

Each row of the batch is computed by itself, sums in the order of a list's ids, so the result does not depend on the
number of threads. Tables are read where they lie. Any int64 is an id; one that a table does not hold has the table's
last row. An empty list is zeros.

ids: of each feature, [batch], or for a list [batch, length], padded with anything.
lengths: [batch], of each feature that is a list, in the order of the features. A length beyond the padded one counts as
  that, one below 0 as 0.
given: values that stand in the matrix as they are, [batch] or [batch, width].
keys: [n] of each table, in the order of their hashes, which ops/lookup_concat.py computes.
starts: [2^k + 1] of each table: where in `keys` the hashes begin whose first k bits are the place's number.
rows: [n + 1, dim] of each table: the embedding of every key; the last one is every other id's.
scales: [n + 1] of each table where rows are int8: what each of them is multiplied by; none of others.
tables: which table each feature is looked up in.
poolings: of each feature: `id` for one id, otherwise what becomes of a list; sqrtn: the sum over the root of the length.
max_lengths: of each feature: how many ids of a list count, the last ones; 0: all.
signed_log: of each given input: whether it is sign(x) log(1 + |x|) that stands in the matrix.
segments: five numbers each: input (features first, then given ones), first value of its vector, number of values, part
  and column of the matrix that they begin at. An input may stand in several places, and in none.
names: of features and given inputs, for messages.
matrix: [parts, batch, width], zeros where nothing stands.
)doc");

REGISTER_OP("PsClusterLookupSequence")
    .Input("ids: int64")
    .Input("lengths: int64")
    .Input("keys: int64")
    .Input("starts: Index")
    .Input("rows: T")
    .Input("scales: num_scales * float")
    .Output("elements: float")
    .Output("mask: bool")
    .Attr("T: {float, half, int8} = DT_FLOAT")
    .Attr("num_scales: int >= 0 = 0")
    .Attr("Index: {int32, int64} = DT_INT32")
    .Attr("max_length: int >= 0 = 0")
    .Attr("name_of_list: string = 'ids'")
    .SetShapeFn(SequenceShapes)
    .Doc(R"doc(
Lists of ids looked up in a frozen table, for what attends to their elements. Arguments as of PsClusterLookupConcat.

elements: [batch, longest, dim], zeros behind a list's end; longest: the most ids that count in a list of this batch.
mask: [batch, longest], whether a list has an element there.
)doc");

}  // namespace ps_cluster
