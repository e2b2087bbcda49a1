// Registration of the ops of the native embedding table.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ps_cluster {

using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeAndType;
using tensorflow::shape_inference::ShapeHandle;

namespace {

// `[keys…, width]`, as far as the handle tells the width.
ShapeHandle ValuesShape(InferenceContext* c, ShapeHandle keys) {
  ShapeHandle width = c->Vector(InferenceContext::kUnknownDim), values;
  const auto* handle = c->input_handle_shapes_and_types(0);
  if (handle != nullptr && handle->size() == 2) width = (*handle)[1].shape;
  return c->Concatenate(keys, width, &values).ok() ? values : c->UnknownShape();
}

}  // namespace

REGISTER_OP("PsClusterTable")
    .Output("table: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("value_dtype: {float, half, bfloat16} = DT_FLOAT")
    .Attr("dims: list(int) >= 1")
    .Attr("min_frequencies: list(int) = [0]")
    .Attr("optimizer: string = 'none'")
    .Attr("optimizer_settings: list(float) = []")
    .Attr("initial_kind: int = 0")
    .Attr("initial_scale: float = 0.0")
    .Attr("salt: int = 0")
    .Attr("seed: int = 0")
    .Attr("admission: {'none', 'exact', 'bloom', 'probability'} = 'none'")
    .Attr("admission_threshold: int = 1")
    .Attr("admission_probability: float = 1.0")
    .Attr("bloom_capacity: int = 0")
    .Attr("bloom_error: float = 0.0")
    .Attr("cold_value: float = 0.0")
    .Attr("max_age_steps: int = 0")
    .Attr("max_age_hours: int = 0")
    .Attr("half_life_steps: float = 0.0")
    .Attr("min_frequency: float = 0.0")
    .Attr("max_bytes: int = 0")
    .Attr("track_removed: bool = false")
    .Attr("num_sub_tables: int = 256")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::DataType value_dtype;
      std::vector<int64_t> dims;
      TF_RETURN_IF_ERROR(c->GetAttr("value_dtype", &value_dtype));
      TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
      c->set_output(0, c->Scalar());
      c->set_output_handle_shapes_and_types(
          0, std::vector<ShapeAndType>{{c->Scalar(), tensorflow::DT_INT64}, {c->Vector(dims.back()), value_dtype}});
      return OkStatus();
    })
    .Doc(R"doc(
The native embedding table of a name, made when it is not there yet.

A table of that name that was made with other attributes is an error that names the attribute.

table: usable by TensorFlow's lookup table ops too: int64 keys, values [width] of `value_dtype`.
dims: width of each tier, ascending. min_frequencies: frequency from which on an id is in that tier.
optimizer_settings, initial_kind: as in PsClusterPush.
)doc");

REGISTER_OP("PsClusterTableFind")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("default_value: T")
    .Output("values: T")
    .Output("exists: bool")
    .Attr("T: {float, half, bfloat16}")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, ValuesShape(c, c->input(1)));
      c->set_output(1, c->input(1));
      return OkStatus();
    })
    .Doc(R"doc(
Vectors of keys, and which keys have one.

default_value: [width], or one vector for each key.
)doc");

REGISTER_OP("PsClusterTableInitialValues")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("values: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, ValuesShape(c, c->input(1)));
      return OkStatus();
    })
    .Doc("What a row of each key starts from, whether it has one or not: [keys, width].");

REGISTER_OP("PsClusterTableAccumulate")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("values_or_deltas: T")
    .Input("exists: bool")
    .Attr("T: {float, half, bfloat16}")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Adds to the keys that exist and inserts those that do not, if that is what `exists` says of them.");

REGISTER_OP("PsClusterTableClear")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Removes all rows and counts.");

REGISTER_OP("PsClusterTableExportBlock")
    .Input("table: resource")
    .Input("cursor: int64")
    .Output("next: int64")
    .Output("row_class: int64")
    .Output("keys: int64")
    .Output("values: T")
    .Output("slots: float")
    .Output("last_steps: int64")
    .Output("frequencies: double")
    .Attr("T: {float, half, bfloat16}")
    .Attr("max_rows: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      const ShapeHandle keys = c->Vector(InferenceContext::kUnknownDim);
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      c->set_output(2, keys);
      c->set_output(3, ValuesShape(c, keys));
      c->set_output(4, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      c->set_output(5, keys);
      c->set_output(6, keys);
      return OkStatus();
    })
    .Doc(R"doc(
The next rows of a table, all of one class.

cursor: 0 at first, then `next` of the call before. next: -1 when all rows have been given.
row_class: 0 for keys that are only counted, k for rows of tier k - 1. keys: at most `max_rows`.
values: [keys, width], zeros behind narrower rows. slots: [keys, slots * dim of the class].
)doc");

REGISTER_OP("PsClusterTableSaveFiles")
    .Input("table: resource")
    .Input("folder: string")
    .Input("file_name: string")
    .Attr("append: bool = false")
    .Attr("block_rows: int >= 1 = 65536")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Writes TFRA's files of a table, `file_name`-keys (int64) and `file_name`-values, in blocks.");

REGISTER_OP("PsClusterTableLoadFiles")
    .Input("table: resource")
    .Input("folder: string")
    .Input("file_name: string")
    .Attr("whole_folder: bool = false")
    .Attr("block_rows: int >= 1 = 65536")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Inserts the rows of TFRA's files of a table.

whole_folder: all shards of the variable whose shard (NAME_mht_1of2) `file_name` is.
)doc");

REGISTER_OP("PsClusterTableTakeEvicted")
    .Input("table: resource")
    .Output("keys: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return OkStatus();
    })
    .Doc("Keys that eviction removed since the last call, oldest first; at most the newest 4,096.");

REGISTER_OP("PsClusterTableStats")
    .Input("table: resource")
    .Output("json: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Rows, bytes, what was admitted and evicted, longest pauses, most frequent keys: a JSON object.");

}  // namespace ps_cluster
