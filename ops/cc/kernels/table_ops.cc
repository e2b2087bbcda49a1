// What a native table can do beyond TensorFlow's own lookup ops.
#include <algorithm>
#include <cstring>
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
    const tensorflow::DataType type = ctx->expected_output_dtype(3);
    OP_REQUIRES(ctx, type == table->value_dtype(),
                InvalidArgument("T: expected ", tensorflow::DataTypeString(table->value_dtype()), ", found ",
                                tensorflow::DataTypeString(type)));
    uint64_t cursor = static_cast<uint64_t>(ctx->input(1).flat<int64_t>()(0));
    RowBlock block;
    bool more = true;
    OP_REQUIRES_OK(ctx, Guarded([&] { more = table->table().Export(&cursor, max_rows_, &block); }));
    if (!more) block.clear();
    const int64_t n = block.size();
    const int64_t dim = table->table().dim(block.row_class);
    const int64_t slots = table->table().spec().optimizer.slots() * dim;
    Tensor *next = nullptr, *row_class = nullptr, *keys = nullptr, *values = nullptr, *slots_out = nullptr;
    Tensor *last_steps = nullptr, *frequencies = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &next));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &row_class));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({n}), &keys));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3, TensorShape({n, table->table().width()}), &values));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(4, TensorShape({n, slots}), &slots_out));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(5, TensorShape({n}), &last_steps));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(6, TensorShape({n}), &frequencies));
    next->scalar<int64_t>()() = more ? static_cast<int64_t>(cursor) : -1;
    row_class->scalar<int64_t>()() = block.row_class;
    if (n == 0) return;
    std::copy(block.keys.begin(), block.keys.end(), keys->flat<int64_t>().data());
    table->CopyEmbeddings(block, static_cast<char*>(values->data()));
    const int64_t row_bytes = table->table().RowBytes(block.row_class);
    const bool decays = table->table().spec().eviction.half_life_steps > 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const char* end = block.rows.data() + (i + 1) * row_bytes;
      std::memcpy(slots_out->flat<float>().data() + i * slots, end - slots * sizeof(float), slots * sizeof(float));
      last_steps->flat<int64_t>()(i) = block.meta[i].last_step;
      float decayed;
      std::memcpy(&decayed, &block.meta[i].frequency, sizeof(decayed));
      frequencies->flat<double>()(i) = block.meta[i].frequency;
      if (decays) frequencies->flat<double>()(i) = decayed;
    }
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
