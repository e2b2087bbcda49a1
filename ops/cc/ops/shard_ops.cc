// Registration of the ops between tables and the files of a checkpoint.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {

using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;

namespace {

Status TotalsShape(InferenceContext* c) {
  c->set_output(0, c->Vector(6));
  return OkStatus();
}

}  // namespace

REGISTER_OP("PsClusterBeginSave")
    .Input("table: resource")
    .Output("is_delta: bool")
    .Attr("delta: bool")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Fixes what PsClusterWriteTable of the same table will write: a native table as it is now. Gives up a save that was
begun before and not written.

delta: only what changed since the save before, where that is possible.
is_delta: whether it is.
)doc");

REGISTER_OP("PsClusterWriteTable")
    .Input("table: resource")
    .Input("path: string")
    .Input("header: string")
    .Output("totals: int64")
    .SetIsStateful()
    .SetShapeFn(TotalsShape)
    .Doc(R"doc(
Writes what PsClusterBeginSave has fixed to a shard's file, while the table may change; makes the file's folder.

header: JSON text that is kept in the file.
totals: rows, counted keys, removed keys, segments of the Bloom filter, bytes of the file, digest.
)doc");

REGISTER_OP("PsClusterPackTable")
    .Input("keys_file: string")
    .Input("rows_file: string")
    .Input("path: string")
    .Input("header: string")
    .Output("totals: int64")
    .Attr("dim: int >= 1")
    .Attr("slots: int >= 0")
    .SetIsStateful()
    .SetShapeFn(TotalsShape)
    .Doc(R"doc(
Writes a shard's file from the two files of a TFRA table with packed rows, and deletes those two.

keys_file: int64. rows_file: float32 [dim * (1 + slots) + 2] a key. header, totals: as in PsClusterWriteTable.
)doc");

REGISTER_OP("PsClusterRestoreTable")
    .Input("table: resource")
    .Input("path: string")
    .Output("rows: int64")
    .Attr("salt: int")
    .Attr("ps_index: int >= 0")
    .Attr("num_ps: int >= 1")
    .Attr("dims: list(int)")
    .Attr("value_type: {'float32', 'float16', 'bfloat16'}")
    .Attr("slots: int >= 0")
    .Attr("decayed_frequencies: bool")
    .Attr("mode: {'state', 'warm', 'embeddings'}")
    .Attr("packed_dim: int >= 0 = 0")
    .Attr("packed_slot_values: list(float) = []")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Puts what a shard's file has for this PS into a table: native, or TFRA's with packed rows. Removed keys of a delta go
first. What is there already is replaced.

dims, value_type, slots, decayed_frequencies: what the file holds; dims by tier.
mode: `state`: all as it was. `warm`: the same for a training whose steps start anew. `embeddings`: like `warm`, but
rows of other widths, types and slots are taken too, slots start anew and counts of the admission are left out.
packed_dim: width of an embedding in a TFRA table. packed_slot_values: what new
slots of its rows start from; those that are not named, from 0.
rows: rows with an embedding that were put in.
)doc");

REGISTER_OP("PsClusterShardHeader")
    .Input("path: string")
    .Output("header: string")
    .Output("is_delta: bool")
    .Output("next: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      c->set_output(2, c->UnknownShapeOfRank(1));
      return OkStatus();
    })
    .Doc(R"doc(
What the head of a shard's file says.

next: where PsClusterReadShard starts.
)doc");

REGISTER_OP("PsClusterReadShard")
    .Input("path: string")
    .Input("cursor: int64")
    .Output("next: int64")
    .Output("kind: int32")
    .Output("row_class: int32")
    .Output("keys: int64")
    .Output("meta: uint32")
    .Output("rows: uint8")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->UnknownShapeOfRank(1));
      c->set_output(1, c->Scalar());
      c->set_output(2, c->Scalar());
      c->set_output(3, c->UnknownShapeOfRank(1));
      c->set_output(4, c->Matrix(InferenceContext::kUnknownDim, 3));
      c->set_output(5, c->UnknownShapeOfRank(2));
      return OkStatus();
    })
    .Doc(R"doc(
One block of a shard's file.

cursor: where it lies; `next` of the block before.
kind: 1 rows, 2 removed keys, 3 Bloom filter (keys: numbers of its segments), 4 end.
row_class: 0 for keys that are only counted, k for tier k - 1.
meta: [keys, 3]: last step, frequency, last hour; empty unless these are rows.
rows: [keys, bytes of a row]: embedding in its own type, padded to 4 bytes, then float32 slots.
)doc");

REGISTER_OP("PsClusterCheckShard")
    .Input("path: string")
    .Output("totals: int64")
    .SetIsStateful()
    .SetShapeFn(TotalsShape)
    .Doc(R"doc(
Reads a whole shard's file; an error names the block that is damaged or missing.

totals: as in PsClusterWriteTable.
)doc");

}  // namespace ps_cluster
