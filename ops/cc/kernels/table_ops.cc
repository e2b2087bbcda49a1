// What a native table can do beyond TensorFlow's own lookup ops.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/cc/kernels/native_table.h"
#include "ops/cc/table/initial_value.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

using NativeTablePtr = tensorflow::core::RefCountPtr<NativeTable>;

Status CheckType(const char* input, const Tensor& tensor, const NativeTable& table) {
  if (tensor.dtype() == table.value_dtype()) return OkStatus();
  return InvalidArgument(input, ": expected ", tensorflow::DataTypeString(table.value_dtype()), ", found ",
                         tensorflow::DataTypeString(tensor.dtype()));
}

TensorShape ValuesShape(const Tensor& keys, const NativeTable& table) {
  TensorShape shape = keys.shape();
  shape.AppendShape(table.value_shape());
  return shape;
}

class TableFind : public OpKernel {
 public:
  explicit TableFind(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    const Tensor& keys = ctx->input(1);
    const Tensor& defaults = ctx->input(2);
    OP_REQUIRES_OK(ctx, CheckType("default_value", defaults, *table));
    const TensorShape shape = ValuesShape(keys, *table);
    const bool one_default = defaults.NumElements() == table->table().width();
    OP_REQUIRES(ctx, one_default || defaults.NumElements() == shape.num_elements(),
                InvalidArgument("default_value: expected one vector of ", table->table().width(),
                                " or one for each of ", keys.NumElements(), " keys, found shape ",
                                defaults.shape().DebugString()));
    Tensor *values = nullptr, *exists = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &values));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, keys.shape(), &exists));
    OP_REQUIRES_OK(ctx, Guarded([&] {
                     table->table().Find(keys.flat<int64_t>().data(), keys.NumElements(), defaults.data(), one_default,
                                         values->data(), exists->flat<bool>().data());
                   }));
  }
};

class TableInitialValues : public OpKernel {
 public:
  explicit TableInitialValues(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    const TableSpec& spec = table->table().spec();
    const Tensor& keys = ctx->input(1);
    Tensor* values = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, ValuesShape(keys, *table), &values));
    const int width = table->table().width();
    float* row = values->flat<float>().data();
    for (int64_t i = 0; i < keys.NumElements(); ++i, row += width) {
      FillInitialValue(spec.initializer, spec.seed, spec.salt, keys.flat<int64_t>()(i), width, row);
    }
  }
};

class TableAccumulate : public OpKernel {
 public:
  explicit TableAccumulate(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    const Tensor &keys = ctx->input(1), &values = ctx->input(2), &exists = ctx->input(3);
    OP_REQUIRES_OK(ctx, CheckType("values_or_deltas", values, *table));
    OP_REQUIRES(ctx, values.NumElements() == keys.NumElements() * table->table().width(),
                InvalidArgument("values_or_deltas: expected ", keys.NumElements(), " vectors of ",
                                table->table().width(), ", found shape ", values.shape().DebugString()));
    OP_REQUIRES(ctx, exists.NumElements() == keys.NumElements(),
                InvalidArgument("exists: expected one for each of ", keys.NumElements(), " keys, found shape ",
                                exists.shape().DebugString()));
    OP_REQUIRES_OK(ctx, Guarded([&] {
                     table->table().Accumulate(keys.flat<int64_t>().data(), keys.NumElements(), values.data(),
                                               exists.flat<bool>().data());
                   }));
  }
};

class TableClear : public OpKernel {
 public:
  explicit TableClear(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    OP_REQUIRES_OK(ctx, Guarded([&] { table->table().Clear(); }));
  }
};

class TableExportBlock : public OpKernel {
 public:
  explicit TableExportBlock(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_rows", &max_rows_));
  }

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    OP_REQUIRES(ctx, ctx->input(1).NumElements() == 1,
                InvalidArgument("cursor: expected one value, found ", ctx->input(1).NumElements()));
    OP_REQUIRES(ctx, ctx->expected_output_dtype(2) == table->value_dtype(),
                InvalidArgument("T: expected ", tensorflow::DataTypeString(table->value_dtype()), ", found ",
                                tensorflow::DataTypeString(ctx->expected_output_dtype(2))));
    uint64_t cursor = static_cast<uint64_t>(ctx->input(1).flat<int64_t>()(0));
    RowBlock block;
    bool more = true;
    OP_REQUIRES_OK(ctx, Guarded([&] {
                     do {
                       more = table->table().Export(&cursor, max_rows_, &block);
                     } while (more && block.row_class == 0);
                     if (!more) block.clear();
                   }));
    Tensor *next = nullptr, *keys = nullptr, *values = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &next));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({block.size()}), &keys));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({block.size(), table->table().width()}), &values));
    next->scalar<int64_t>()() = more ? static_cast<int64_t>(cursor) : -1;
    std::copy(block.keys.begin(), block.keys.end(), keys->flat<int64_t>().data());
    if (block.size() > 0) table->CopyEmbeddings(block, static_cast<char*>(values->data()));
  }

 private:
  int64_t max_rows_;
};

class TableTakeEvicted : public OpKernel {
 public:
  explicit TableTakeEvicted(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    std::vector<int64_t> evicted;
    OP_REQUIRES_OK(ctx, Guarded([&] { evicted = table->table().TakeEvicted(); }));
    Tensor* keys = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({static_cast<int64_t>(evicted.size())}), &keys));
    std::copy(evicted.begin(), evicted.end(), keys->flat<int64_t>().data());
  }
};

// Numbers by name, as JSON.
class JsonObject {
 public:
  JsonObject& Add(const char* name, int64_t value) { return Put(name, std::to_string(value)); }
  JsonObject& Put(const char* name, const std::string& value) {
    text_ += text_.empty() ? "{" : ", ";
    text_ += '"';
    text_ += name;
    text_ += "\": " + value;
    return *this;
  }
  std::string Text() const { return text_ + "}"; }

 private:
  std::string text_;
};

template <typename List, typename Say>
std::string JsonList(const List& list, const Say& say) {
  std::string text;
  for (const auto& one : list) text += (text.empty() ? "" : ", ") + say(one);
  return "[" + text + "]";
}

class TableStatsOp : public OpKernel {
 public:
  explicit TableStatsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    TableStats stats;
    OP_REQUIRES_OK(ctx, Guarded([&] { stats = table->table().Stats(); }));
    JsonObject json;
    json.Add("rows", stats.rows)
        .Add("counted_keys", stats.counted_keys)
        .Add("bytes", stats.bytes)
        .Add("payload_bytes", stats.payload_bytes)
        .Add("embedding_values", stats.embedding_values)
        .Put("rows_by_tier", JsonList(stats.rows_by_tier, [](int64_t rows) { return std::to_string(rows); }))
        .Add("looked_up", stats.looked_up)
        .Add("hits", stats.hits)
        .Add("inserted", stats.inserted)
        .Add("admitted", stats.admitted)
        .Add("refused", stats.refused)
        .Add("promoted", stats.promoted)
        .Add("evicted_age", stats.evicted_age)
        .Add("evicted_frequency", stats.evicted_frequency)
        .Add("evicted_bytes", stats.evicted_bytes)
        .Add("pause_growth_us", stats.pause_growth_us)
        .Add("pause_evict_us", stats.pause_evict_us)
        .Add("pause_snapshot_us", stats.pause_snapshot_us)
        .Put("hot_keys", JsonList(stats.hot_keys, [](const auto& key) {
               return "[" + std::to_string(key.first) + ", " + std::to_string(key.second) + "]";
             }));
    Tensor* text = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &text));
    text->scalar<tensorflow::tstring>()() = json.Text();
  }
};

REGISTER_KERNEL_BUILDER(Name("PsClusterTableFind").Device(tensorflow::DEVICE_CPU), TableFind);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableInitialValues").Device(tensorflow::DEVICE_CPU), TableInitialValues);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableAccumulate").Device(tensorflow::DEVICE_CPU), TableAccumulate);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableClear").Device(tensorflow::DEVICE_CPU), TableClear);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableExportBlock").Device(tensorflow::DEVICE_CPU), TableExportBlock);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableTakeEvicted").Device(tensorflow::DEVICE_CPU), TableTakeEvicted);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableStats").Device(tensorflow::DEVICE_CPU), TableStatsOp);

}  // namespace
}  // namespace ps_cluster
