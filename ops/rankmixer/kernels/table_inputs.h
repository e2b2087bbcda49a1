// From the tensors of a frozen table, and of the lists looked up in it, to what is read of them.
#ifndef PS_CLUSTER_OPS_RANKMIXER_KERNELS_TABLE_INPUTS_H_
#define PS_CLUSTER_OPS_RANKMIXER_KERNELS_TABLE_INPUTS_H_

#include <string>
#include <type_traits>

#include "ops/rankmixer/lookup/frozen_table.h"
#include "ops/rankmixer/lookup/id_lists.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace ps_cluster {

// `what` names the table in messages. The table points into the tensors.
template <typename Value, typename Index>
tensorflow::Status TableOf(const std::string& what, const tensorflow::Tensor& keys, const tensorflow::Tensor& starts,
                           const tensorflow::Tensor& rows, FrozenTable<Value, Index>* table) {
  using tensorflow::errors::InvalidArgument;
  if (keys.dims() != 1) {
    return InvalidArgument(what, ": expected keys [n], found ", keys.shape().DebugString());
  }
  const int64_t n = keys.dim_size(0);
  const int64_t buckets = starts.NumElements() - 1;
  if (starts.dims() != 1 || buckets < 1 || (buckets & (buckets - 1)) != 0) {
    return InvalidArgument(what, ": expected starts [2^k + 1], found ", starts.shape().DebugString());
  }
  if (rows.dims() != 2 || rows.dim_size(0) != n + 1 || rows.dim_size(1) < 1) {
    return InvalidArgument(what, ": expected rows [", n + 1, ", dim], one more than keys, found ",
                           rows.shape().DebugString());
  }
  table->keys = keys.flat<int64_t>().data();
  table->num_keys = n;
  table->starts = starts.flat<Index>().data();
  table->bits = 0;
  while ((int64_t{1} << table->bits) < buckets) ++table->bits;
  table->rows = rows.flat<Value>().data();
  table->dim = rows.dim_size(1);
  if (table->starts[0] != 0 || table->starts[buckets] != n) {
    return InvalidArgument(what, ": expected starts from 0 to the number of keys, ", n, ", found ", table->starts[0],
                           " to ", table->starts[buckets]);
  }
  return tensorflow::OkStatus();
}

// Gives table `number` of `num_tables` its scales, which only tables of int8 have. `what` names it in messages.
template <typename Value, typename Index>
tensorflow::Status AddScales(const std::string& what, const tensorflow::OpInputList& scales, int number, int num_tables,
                             FrozenTable<Value, Index>* table) {
  using tensorflow::errors::InvalidArgument;
  const int expected = std::is_same_v<Value, int8_t> ? num_tables : 0;
  if (scales.size() != expected) {
    return InvalidArgument(what, ": expected scales of ", expected, " tables, which those of int8 have, found ",
                           scales.size());
  }
  if (expected == 0) return tensorflow::OkStatus();
  const tensorflow::Tensor& own = scales[number];
  if (own.dims() != 1 || own.dim_size(0) != table->num_keys + 1) {
    return InvalidArgument(what, ": expected scales [", table->num_keys + 1, "], one for each row, found ",
                           own.shape().DebugString());
  }
  table->scales = own.flat<float>().data();
  return tensorflow::OkStatus();
}

// `what` names the feature in messages.
inline tensorflow::Status ListsOf(const std::string& what, const tensorflow::Tensor& ids,
                                  const tensorflow::Tensor& lengths, int64_t most, IdLists* lists) {
  using tensorflow::errors::InvalidArgument;
  if (ids.dims() != 2) {
    return InvalidArgument(what, ": expected ids [batch, length], found ", ids.shape().DebugString());
  }
  if (lengths.dims() != 1 || lengths.dim_size(0) != ids.dim_size(0)) {
    return InvalidArgument(what, ": expected ", ids.dim_size(0), " lengths, one for each list, found ",
                           lengths.shape().DebugString());
  }
  *lists = {ids.flat<int64_t>().data(), ids.dim_size(1), lengths.flat<int64_t>().data(), most};
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_KERNELS_TABLE_INPUTS_H_
