// Registration of the dataset of batches of ORC files.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace ps_cluster::orc {

REGISTER_OP("PsClusterOrcDataset")
    .Input("paths: string")
    .Input("file_keys: int64")
    .Input("parts: int64")
    .Input("kept: int64")
    .Input("columns: int64")
    .Input("missing_floats: float")
    .Input("condition_steps: int64")
    .Input("condition_ints: int64")
    .Input("condition_floats: double")
    .Input("factors: int64")
    .Input("factor_tables: double")
    .Input("factor_log_tables: double")
    .Input("factor_bounds: double")
    .Input("factor_keys: int64")
    .Output("handle: variant")
    .Attr("sources: list(string) >= 1")
    .Attr("needed_first: list(bool) >= 1")
    .Attr("names: list(string) >= 1")
    .Attr("condition_sizes: list(int)")
    .Attr("filtered: bool")
    .Attr("sampled: bool")
    .Attr("label: int")
    .Attr("sampling_seed: int")
    .Attr("batch_rows: int >= 1")
    .Attr("epochs: int >= 0")
    .Attr("shuffle_rows: int >= 0")
    .Attr("seed: int")
    .Attr("interleave: int >= 1")
    .Attr("drop_remainder: bool")
    .Attr("skip_bad: bool")
    .Attr("verify: bool")
    .Attr("decode_threads: int >= 1")
    .Attr("start_epoch: int >= 0")
    .Attr("start_row: int >= 0")
    .Attr("batches: int")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Batches of the rows of ORC files, in the order that data/read/order.py defines.

An element has, for each column, its values [rows], or for a list its items [items] and row splits int64 [rows + 1];
when `sampled`, then weights and offsets float [rows]; and last int64 [3 + 1 + columns]: batch number, rows, epoch,
rows lost, nulls that were filled of each column.

paths: [files].
file_keys: int64 [files]: what sampling tells a file's rows from those of others by.
parts: int64 [parts, 7]: file, stripe, first row of the stripe in the file, rows of the stripe; first row in the stripe,
  rows, step between them.
kept: int64 [parts], rows that each part gives, or [0] when that is not known.
columns: int64 [columns, 5]: source, kind (0 int64, 1 float, 2 list of int64), whether nulls stand for a value, that
  value, longest list (0: any).
missing_floats: [columns]: what a null of a float column stands for.
condition_steps: int64 [steps, 5]: programs of conditions, one after the other; see data/where/postfix.py.
condition_ints: int64; condition_floats: double: their constants.
factors: int64 [factors, 7]: kind (0 keep, 1 weight), label (-1: any), rate (0 constant, 1 steps, 2 lookup), source of
  the rate, condition (-1: none), entries of its table, entries of its bounds or keys.
factor_tables, factor_log_tables, factor_bounds, factor_keys: those of all factors, one after the other.
sources: names of the columns that are decoded.
needed_first: [sources]: whether the condition on rows needs it.
names: [columns].
condition_sizes: for each condition its steps, ints and floats.
filtered: the first condition is the one on rows.
label: source of the label. seed, sampling_seed: as bits of an unsigned number.
batches: cardinality; -2 when it is not known.
)doc");

}  // namespace ps_cluster::orc
