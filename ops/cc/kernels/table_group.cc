// Tables that share a row layout, as one PS sees them: how their rows are read and written.
#include "ops/cc/kernels/table_group.h"

#include <cstring>
#include <string>

namespace ps_cluster {

using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

Status TableGroup::Init(OpKernelConstruction* ctx) {
  int num_tables, dim;
  std::string name;
  std::vector<float> settings, scales;
  std::vector<int32_t> kinds;
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_tables", &num_tables));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dim", &dim));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &name));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer_settings", &settings));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_kinds", &kinds));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_scales", &scales));
  TF_RETURN_IF_ERROR(ctx->GetAttr("salts", &salts_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seed", &seed_));
  const size_t n = num_tables;
  if (kinds.size() != n || scales.size() != n || salts_.size() != n) {
    return InvalidArgument("initial_kinds, initial_scales, salts: expected ", n, " values each, found ",
                           kinds.size(), ", ", scales.size(), ", ", salts_.size());
  }
  for (size_t t = 0; t < n; ++t) {
    if (kinds[t] < 0 || kinds[t] > 2) {
      return InvalidArgument("initial_kinds[", t, "]: expected 0 (zeros), 1 (uniform) or 2 (normal), found ",
                             kinds[t]);
    }
    initializers_.push_back({static_cast<InitialKind>(kinds[t]), scales[t]});
  }
  return MakeSparseOptimizer(name, settings, dim, &optimizer_);
}

Status TableGroup::Tables(OpKernelContext* ctx, std::vector<TablePtr>* tables) const {
  tables->resize(num_tables());
  for (int t = 0; t < num_tables(); ++t) {
    TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, t), &(*tables)[t]));
    const auto& table = *(*tables)[t];
    if (table.key_dtype() != tensorflow::DT_INT64 || table.value_dtype() != tensorflow::DT_FLOAT ||
        table.value_shape().num_elements() != optimizer_.row_floats()) {
      return InvalidArgument("tables[", t, "]: expected int64 keys and rows of ", optimizer_.row_floats(),
                             " float32, found ", tensorflow::DataTypeString(table.key_dtype()), " keys and rows of ",
                             table.value_shape().num_elements(), " ",
                             tensorflow::DataTypeString(table.value_dtype()));
    }
  }
  return OkStatus();
}

Status TableGroup::Find(OpKernelContext* ctx, tensorflow::lookup::LookupInterface* table, const int64_t* keys,
                        int64_t n, Tensor* key_tensor, Tensor* rows) const {
  const int row_floats = optimizer_.row_floats();
  // A copy, since tables want aligned tensors of their own.
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_INT64, TensorShape({n}), key_tensor));
  std::memcpy(key_tensor->flat<int64_t>().data(), keys, n * sizeof(int64_t));
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({n, row_floats}), rows));
  Tensor missing;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({row_floats}), &missing));
  missing.flat<float>().setZero();
  return table->Find(ctx, *key_tensor, rows, missing);
}

}  // namespace ps_cluster
