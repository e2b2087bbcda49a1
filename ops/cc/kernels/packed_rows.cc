// Rows of a TFRA table: embedding, slots, frequency and last step packed into one vector.
#include "ops/cc/kernels/packed_rows.h"

#include <algorithm>
#include <limits>

#include "ops/cc/kernels/native_table.h"
#include "tensorflow/core/util/work_sharder.h"

namespace ps_cluster {

using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;
using tensorflow::lookup::LookupInterface;

Status PackedRows::Init(OpKernelConstruction* ctx, int num_tables, int dim) {
  std::string name;
  std::vector<float> settings, scales;
  std::vector<int32_t> kinds;
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &name));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer_settings", &settings));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_kinds", &kinds));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_scales", &scales));
  TF_RETURN_IF_ERROR(ctx->GetAttr("salts", &salts_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seed", &seed_));
  dim_ = dim;
  const size_t n = num_tables;
  if (kinds.size() != n || scales.size() != n || salts_.size() != n) {
    return InvalidArgument("initial_kinds, initial_scales, salts: expected ", n, " values each, found ", kinds.size(),
                           ", ", scales.size(), ", ", salts_.size());
  }
  for (size_t t = 0; t < n; ++t) {
    if (kinds[t] < 0 || kinds[t] > 2) {
      return InvalidArgument("initial_kinds[", t, "]: expected 0 (zeros), 1 (uniform) or 2 (normal), found ",
                             kinds[t]);
    }
    initializers_.push_back({static_cast<InitialKind>(kinds[t]), scales[t]});
  }
  return Guarded([&] { optimizer_ = RowOptimizer::Make(name, settings); });
}

Status PackedRows::Find(OpKernelContext* ctx, LookupInterface* table, const int64_t* keys, int64_t n,
                        Tensor* key_tensor, Tensor* rows) const {
  // A copy, since tables want aligned tensors of their own.
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_INT64, TensorShape({n}), key_tensor));
  std::copy_n(keys, n, key_tensor->flat<int64_t>().data());
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({n, row_floats()}), rows));
  Tensor missing;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({row_floats()}), &missing));
  std::fill_n(missing.flat<float>().data(), row_floats(), 0.0f);
  return table->Find(ctx, *key_tensor, rows, missing);
}

Status PackedRows::Pull(OpKernelContext* ctx, int t, LookupInterface* table, const int64_t* keys, int64_t n,
                        bool training, float* out) const {
  Tensor key_tensor, rows;
  TF_RETURN_IF_ERROR(Find(ctx, table, keys, n, &key_tensor, &rows));
  const float* row = rows.flat<float>().data();
  for (int64_t i = 0; i < n; ++i, row += row_floats(), out += dim_) {
    if (training && LastStep(row) == 0) {
      FillInitialValue(initializers_[t], seed_, salts_[t], keys[i], dim_, out);
    } else {
      std::copy_n(row, dim_, out);
    }
  }
  return OkStatus();
}

Status PackedRows::Push(OpKernelContext* ctx, int t, LookupInterface* table, const int64_t* keys,
                        const uint32_t* counts, const float* gradients, int64_t n, Now now,
                        float learning_rate, float gradient_scale) const {
  const StepConstants constants = optimizer_.At(now.step, learning_rate, gradient_scale);
  Tensor key_tensor, row_tensor;
  TF_RETURN_IF_ERROR(Find(ctx, table, keys, n, &key_tensor, &row_tensor));
  float* rows = row_tensor.flat<float>().data();
  const auto update = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = rows + i * row_floats();
      const uint32_t last_step = LastStep(row);
      if (last_step == 0) {
        FillInitialValue(initializers_[t], seed_, salts_[t], keys[i], dim_, row);
        optimizer_.FillSlots(dim_, row + dim_);
      }
      optimizer_.Update(constants, gradients + i * dim_, dim_, last_step, row, row + dim_);
      const uint64_t frequency = uint64_t{Word(row, 2)} + counts[i];
      SetWord(static_cast<uint32_t>(std::min<uint64_t>(frequency, std::numeric_limits<uint32_t>::max())), 2, row);
      SetWord(now.step, 1, row);
    }
  };
  const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
  tensorflow::Shard(threads->num_threads, threads->workers, n, 8 * row_floats(), update);
  return table->Insert(ctx, key_tensor, row_tensor);
}

}  // namespace ps_cluster
