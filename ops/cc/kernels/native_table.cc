// The native embedding table as a TensorFlow resource.
#include "ops/cc/kernels/native_table.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/resource_op_kernel.h"

namespace ps_cluster {

using tensorflow::DataType;
using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;
using tensorflow::lookup::LookupInterface;

namespace {

constexpr int64_t kBlockRows = 4096;
constexpr int64_t kSweepSlices = 1000;     // calls that a whole sweep takes
constexpr int64_t kSweepStepRows = 1024;   // between two looks at the clock
constexpr auto kSweepTime = std::chrono::microseconds(1000);
constexpr int64_t kSweepsPerCount = 256;   // between two counts of the rows

// Attributes that say which table is meant, not what it is.
bool NamesTheTable(const std::string& attribute) {
  return attribute.empty() || attribute[0] == '_' || attribute == "container" || attribute == "shared_name";
}

}  // namespace

DataType DataTypeOf(ValueType type) {
  switch (type) {
    case ValueType::kFloat32:
      return tensorflow::DT_FLOAT;
    case ValueType::kFloat16:
      return tensorflow::DT_HALF;
    case ValueType::kBfloat16:
      return tensorflow::DT_BFLOAT16;
  }
  return tensorflow::DT_INVALID;
}

NativeTable::NativeTable(TableSpec spec, Attributes attributes)
    : table_(std::move(spec)),
      attributes_(std::move(attributes)),
      value_bytes_(static_cast<int64_t>(table_.width()) * tensorflow::DataTypeSize(value_dtype())) {}

void NativeTable::SweepSlice(Now now) {
  const EvictionSpec& rules = table_.spec().eviction;
  if (rules.max_age_steps == 0 && rules.max_age_hours == 0 && rules.half_life_steps == 0.0) return;
  if (sweeping_.exchange(true, std::memory_order_acquire)) return;
  if (sweeps_++ % kSweepsPerCount == 0) {
    const TableStats stats = table_.Stats();
    slice_rows_ = (stats.rows + stats.counted_keys) / kSweepSlices + 64;
  }
  const auto end = std::chrono::steady_clock::now() + kSweepTime;
  for (int64_t left = slice_rows_; left > 0; left -= kSweepStepRows) {
    table_.Sweep(now, std::min(left, kSweepStepRows));
    if (std::chrono::steady_clock::now() >= end) break;
  }
  sweeping_.store(false, std::memory_order_release);
}

void NativeTable::CopyEmbeddings(const RowBlock& block, char* values) const {
  const int64_t row_bytes = table_.RowBytes(block.row_class);
  const int64_t embedding_bytes = value_bytes_ / table_.width() * table_.dim(block.row_class);
  const char* row = block.rows.data();
  for (int64_t i = 0; i < block.size(); ++i, row += row_bytes, values += value_bytes_) {
    std::memcpy(values, row, embedding_bytes);
    std::memset(values + embedding_bytes, 0, value_bytes_ - embedding_bytes);
  }
}

Status NativeTable::Find(OpKernelContext* ctx, const Tensor& keys, Tensor* values, const Tensor& default_value) {
  const bool one_default = default_value.NumElements() == table_.width();
  if (!one_default && default_value.NumElements() != values->NumElements()) {
    return InvalidArgument("default_value: expected one vector of ", table_.width(),
                           " or one for each key, found shape ", default_value.shape().DebugString());
  }
  return Guarded([&] {
    table_.Find(keys.flat<int64_t>().data(), keys.NumElements(), default_value.data(), one_default, values->data(),
                nullptr);
  });
}

Status NativeTable::Insert(OpKernelContext* ctx, const Tensor& keys, const Tensor& values) {
  return Guarded([&] { table_.Insert(keys.flat<int64_t>().data(), keys.NumElements(), values.data()); });
}

Status NativeTable::Remove(OpKernelContext* ctx, const Tensor& keys) {
  return Guarded([&] { table_.Remove(keys.flat<int64_t>().data(), keys.NumElements()); });
}

Status NativeTable::ImportValues(OpKernelContext* ctx, const Tensor& keys, const Tensor& values) {
  TF_RETURN_IF_ERROR(Guarded([&] { table_.Clear(); }));
  return Insert(ctx, keys, values);
}

Status NativeTable::ExportValues(OpKernelContext* ctx) {
  // Rows that come while the export runs may or may not be in it.
  const int64_t room = table_.size();
  Tensor keys, values;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(key_dtype(), TensorShape({room}), &keys));
  TF_RETURN_IF_ERROR(ctx->allocate_temp(value_dtype(), TensorShape({room, table_.width()}), &values));
  int64_t found = 0;
  TF_RETURN_IF_ERROR(Guarded([&] {
    uint64_t cursor = 0;
    RowBlock block;
    while (found < room && table_.Export(&cursor, std::min(kBlockRows, room - found), &block)) {
      if (block.row_class == 0) continue;
      std::copy(block.keys.begin(), block.keys.end(), keys.flat<int64_t>().data() + found);
      CopyEmbeddings(block, static_cast<char*>(values.data()) + found * value_bytes_);
      found += block.size();
    }
  }));
  TF_RETURN_IF_ERROR(ctx->set_output("keys", keys.Slice(0, found)));
  return ctx->set_output("values", values.Slice(0, found));
}

Status NativeTableFromInput(OpKernelContext* ctx, int index, tensorflow::core::RefCountPtr<NativeTable>* table) {
  TablePtr found;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, index), &found));
  auto* native = dynamic_cast<NativeTable*>(found.get());
  if (native == nullptr) {
    return InvalidArgument("table: expected a native table, found ", found->DebugString());
  }
  found.release();
  table->reset(native);
  return OkStatus();
}

namespace {

Status ReadSpec(OpKernelConstruction* ctx, TableSpec* spec) {
  std::vector<int64_t> dims, min_frequencies;
  std::vector<float> optimizer_settings;
  std::string optimizer, admission;
  DataType value_dtype;
  int64_t initial_kind, threshold;
  float initial_scale, bloom_error, probability, cold_value, half_life, min_frequency;
  TF_RETURN_IF_ERROR(ctx->GetAttr("value_dtype", &value_dtype));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dims", &dims));
  TF_RETURN_IF_ERROR(ctx->GetAttr("min_frequencies", &min_frequencies));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &optimizer));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer_settings", &optimizer_settings));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_kind", &initial_kind));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initial_scale", &initial_scale));
  TF_RETURN_IF_ERROR(ctx->GetAttr("salt", &spec->salt));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seed", &spec->seed));
  TF_RETURN_IF_ERROR(ctx->GetAttr("admission", &admission));
  TF_RETURN_IF_ERROR(ctx->GetAttr("admission_threshold", &threshold));
  TF_RETURN_IF_ERROR(ctx->GetAttr("admission_probability", &probability));
  TF_RETURN_IF_ERROR(ctx->GetAttr("bloom_capacity", &spec->admission.bloom_capacity));
  TF_RETURN_IF_ERROR(ctx->GetAttr("bloom_error", &bloom_error));
  TF_RETURN_IF_ERROR(ctx->GetAttr("cold_value", &cold_value));
  TF_RETURN_IF_ERROR(ctx->GetAttr("max_age_steps", &spec->eviction.max_age_steps));
  TF_RETURN_IF_ERROR(ctx->GetAttr("max_age_hours", &spec->eviction.max_age_hours));
  TF_RETURN_IF_ERROR(ctx->GetAttr("half_life_steps", &half_life));
  TF_RETURN_IF_ERROR(ctx->GetAttr("min_frequency", &min_frequency));
  TF_RETURN_IF_ERROR(ctx->GetAttr("max_bytes", &spec->eviction.max_bytes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("track_removed", &spec->track_removed));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_sub_tables", &spec->num_sub_tables));

  const int64_t most = std::numeric_limits<uint32_t>::max();
  if (dims.empty() || dims.size() != min_frequencies.size()) {
    return InvalidArgument("min_frequencies: expected one for each of ", dims.size(), " dims, at least one, found ",
                           min_frequencies.size());
  }
  for (size_t tier = 0; tier < dims.size(); ++tier) {
    if (dims[tier] < 1 || dims[tier] > (1 << 20)) {
      return InvalidArgument("dims[", tier, "]: expected 1 to 2^20, found ", dims[tier]);
    }
    if (min_frequencies[tier] < 0 || min_frequencies[tier] > most) {
      return InvalidArgument("min_frequencies[", tier, "]: expected 0 to 2^32 - 1, found ", min_frequencies[tier]);
    }
    spec->tiers.push_back({static_cast<int>(dims[tier]), static_cast<uint32_t>(min_frequencies[tier])});
  }
  if (initial_kind < 0 || initial_kind > 2) {
    return InvalidArgument("initial_kind: expected 0 (zeros), 1 (uniform) or 2 (normal), found ", initial_kind);
  }
  if (threshold < 1 || threshold > most) {
    return InvalidArgument("admission_threshold: expected 1 to 2^32 - 1, found ", threshold);
  }
  spec->value_type = value_dtype == tensorflow::DT_HALF       ? ValueType::kFloat16
                     : value_dtype == tensorflow::DT_BFLOAT16 ? ValueType::kBfloat16
                                                              : ValueType::kFloat32;
  spec->initializer = {static_cast<InitialKind>(initial_kind), initial_scale};
  spec->admission.kind = admission == "exact"         ? AdmissionKind::kExact
                         : admission == "bloom"       ? AdmissionKind::kBloom
                         : admission == "probability" ? AdmissionKind::kProbability
                                                      : AdmissionKind::kNone;
  spec->admission.threshold = static_cast<uint32_t>(threshold);
  spec->admission.probability = probability;
  spec->admission.bloom_error = bloom_error;
  spec->admission.cold_value = cold_value;
  spec->eviction.half_life_steps = half_life;
  spec->eviction.min_frequency = min_frequency;
  return Guarded([&] {
    if (optimizer != "none") spec->optimizer = RowOptimizer::Make(optimizer, optimizer_settings);
  });
}

class TableOp : public tensorflow::ResourceOpKernel<LookupInterface> {
 public:
  explicit TableOp(OpKernelConstruction* ctx) : ResourceOpKernel<LookupInterface>(ctx) {
    OP_REQUIRES_OK(ctx, ReadSpec(ctx, &spec_));
    for (const auto& [name, value] : ctx->def().attr()) {
      if (!NamesTheTable(name)) attributes_.emplace_back(name, tensorflow::SummarizeAttrValue(value));
    }
    std::sort(attributes_.begin(), attributes_.end());
  }

 private:
  Status CreateResource(LookupInterface** resource) override {
    *resource = nullptr;
    return Guarded([&] { *resource = new NativeTable(spec_, attributes_); });
  }

  Status VerifyResource(LookupInterface* resource) override {
    const auto* found = dynamic_cast<NativeTable*>(resource);
    if (found == nullptr) {
      return InvalidArgument("table ", cinfo_.name(), ": the name belongs to another kind of table: ",
                             resource->DebugString());
    }
    for (size_t i = 0; i < attributes_.size(); ++i) {
      if (i >= found->attributes().size() || attributes_[i] != found->attributes()[i]) {
        return InvalidArgument("table ", cinfo_.name(), ": ", attributes_[i].first, ": expected ",
                               attributes_[i].second, ", but the table of this name that exists has ",
                               i < found->attributes().size() ? found->attributes()[i].second : "none");
      }
    }
    return OkStatus();
  }

  TableSpec spec_;
  NativeTable::Attributes attributes_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterTable").Device(tensorflow::DEVICE_CPU), TableOp);

}  // namespace
}  // namespace ps_cluster
