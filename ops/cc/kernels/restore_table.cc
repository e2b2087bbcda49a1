// Rows of a shard's file into a table, of whatever engine either was.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/cc/files/shard_file.h"
#include "ops/cc/kernels/native_table.h"
#include "ops/cc/kernels/own_thread.h"
#include "ops/cc/table/hashing.h"

namespace ps_cluster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::DataLoss;
using tensorflow::errors::InvalidArgument;

// Of rows whose training starts anew; 0 would say that a row was never written.
constexpr uint32_t kFirstStep = 1;
constexpr int kBloomBits = 12;  // segments are ranges of the upper bits of the key's hash

int BytesOf(ValueType type) { return type == ValueType::kFloat32 ? 4 : 2; }

const char* NameOf(ValueType type) {
  return type == ValueType::kFloat32 ? "float32" : type == ValueType::kFloat16 ? "float16" : "bfloat16";
}

float ToFloat(ValueType type, const char* at) {
  if (type == ValueType::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  if (type == ValueType::kFloat16) {
    Eigen::half value;
    std::memcpy(static_cast<void*>(&value), at, sizeof(value));
    return static_cast<float>(value);
  }
  tensorflow::bfloat16 value;
  std::memcpy(static_cast<void*>(&value), at, sizeof(value));
  return static_cast<float>(value);
}

void FromFloat(float value, ValueType type, char* at) {
  if (type == ValueType::kFloat32) {
    std::memcpy(at, &value, sizeof(value));
  } else if (type == ValueType::kFloat16) {
    const Eigen::half half(value);
    std::memcpy(at, &half, sizeof(half));
  } else {
    const tensorflow::bfloat16 half(value);
    std::memcpy(at, &half, sizeof(half));
  }
}

// How rows are laid out; by row class from 1 on.
struct RowsKind {
  std::vector<int> dims;
  ValueType type = ValueType::kFloat32;
  int slots = 0;
  bool decayed = false;  // frequencies are the bits of a float32

  int64_t EmbeddingBytes(int row_class) const { return (dims[row_class - 1] * BytesOf(type) + 3) / 4 * 4; }
  int64_t RowBytes(int row_class) const {
    return row_class == 0 ? 0 : EmbeddingBytes(row_class) + int64_t{4} * slots * dims[row_class - 1];
  }
  std::string DebugString() const {
    std::string text;
    for (const int dim : dims) text += (text.empty() ? "" : "/") + std::to_string(dim);
    return "rows of " + text + " " + NameOf(type) + " with " + std::to_string(slots) + " slots";
  }
};

// What rows are put into.
class Target {
 public:
  virtual ~Target() = default;
  virtual const RowsKind& kind() const = 0;
  virtual bool counts_keys() const { return false; }  // takes rows of class 0
  virtual const RowOptimizer* optimizer() const { return nullptr; }
  virtual Status Insert(OpKernelContext* ctx, const RowBlock& block) = 0;
  virtual Status Remove(OpKernelContext* ctx, const std::vector<int64_t>& keys) = 0;
  virtual Status MergeBloom(const BloomSegment& segment) { return OkStatus(); }
};

class NativeTarget : public Target {
 public:
  explicit NativeTarget(NativeTable* native) : table_(native->table()) {
    for (int row_class = 1; row_class < table_.num_classes(); ++row_class) kind_.dims.push_back(table_.dim(row_class));
    kind_.type = table_.spec().value_type;
    kind_.slots = table_.spec().optimizer.slots();
    kind_.decayed = table_.spec().eviction.half_life_steps > 0;
  }
  const RowsKind& kind() const override { return kind_; }
  bool counts_keys() const override { return table_.spec().admission.kind == AdmissionKind::kExact; }
  const RowOptimizer* optimizer() const override { return &table_.spec().optimizer; }

  Status Insert(OpKernelContext* ctx, const RowBlock& block) override {
    return Guarded([&] { table_.InsertRows(block); });
  }
  Status Remove(OpKernelContext* ctx, const std::vector<int64_t>& keys) override {
    return Guarded([&] { table_.Remove(keys.data(), static_cast<int64_t>(keys.size())); });
  }
  Status MergeBloom(const BloomSegment& segment) override {
    const int64_t expected = table_.bloom_segment_bytes();
    if (expected == 0) return OkStatus();
    if (static_cast<int64_t>(segment.counters.size()) != expected) {
      return InvalidArgument("admission: expected segments of ", expected, " bytes, found ", segment.counters.size(),
                             "; the filter's capacity, error or threshold is not that of the training");
    }
    return Guarded([&] { table_.MergeBloom(segment); });
  }

 private:
  Table& table_;
  RowsKind kind_;
};

// Rows packed as `PackedRows` has them.
class PackedTarget : public Target {
 public:
  static Status Make(tensorflow::lookup::LookupInterface* table, int dim, std::unique_ptr<Target>* target) {
    const int64_t floats = table->value_shape().num_elements();
    if (table->key_dtype() != tensorflow::DT_INT64 || table->value_dtype() != tensorflow::DT_FLOAT || dim < 1 ||
        (floats - 2) % dim != 0 || floats < dim + 2) {
      return InvalidArgument("table: expected int64 keys and rows of float32 with embeddings of ", dim, ", found ",
                             tensorflow::DataTypeString(table->key_dtype()), " keys and rows of ", floats, " ",
                             tensorflow::DataTypeString(table->value_dtype()));
    }
    std::unique_ptr<PackedTarget> made(new PackedTarget);
    made->table_ = table;
    made->kind_.dims = {dim};
    made->kind_.slots = static_cast<int>((floats - 2) / dim) - 1;
    *target = std::move(made);
    return OkStatus();
  }
  const RowsKind& kind() const override { return kind_; }

  Status Insert(OpKernelContext* ctx, const RowBlock& block) override {
    const int64_t n = block.size(), row_bytes = kind_.RowBytes(1);
    Tensor keys, rows;
    TF_RETURN_IF_ERROR(KeysOf(ctx, block.keys, &keys));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({n, table_->value_shape().num_elements()}), &rows));
    char* out = static_cast<char*>(rows.data());
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(out, block.rows.data() + i * row_bytes, row_bytes);
      std::memcpy(out + row_bytes, &block.meta[i].frequency, 4);
      std::memcpy(out + row_bytes + 4, &block.meta[i].last_step, 4);
      out += row_bytes + 8;
    }
    return table_->Insert(ctx, keys, rows);
  }
  Status Remove(OpKernelContext* ctx, const std::vector<int64_t>& keys) override {
    Tensor tensor;
    TF_RETURN_IF_ERROR(KeysOf(ctx, keys, &tensor));
    return table_->Remove(ctx, tensor);
  }

 private:
  static Status KeysOf(OpKernelContext* ctx, const std::vector<int64_t>& keys, Tensor* tensor) {
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(tensorflow::DT_INT64, TensorShape({static_cast<int64_t>(keys.size())}), tensor));
    std::copy(keys.begin(), keys.end(), tensor->flat<int64_t>().data());
    return OkStatus();
  }

  tensorflow::lookup::LookupInterface* table_;
  RowsKind kind_;
};

class RestoreTable : public OwnThreadOp {
 public:
  explicit RestoreTable(OpKernelConstruction* ctx) : OwnThreadOp(ctx) {
    std::string type;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &stored_.dims));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("value_type", &type));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slots", &stored_.slots));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("decayed_frequencies", &stored_.decayed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("packed_dim", &packed_dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("packed_slot_values", &packed_slot_values_));
    std::string mode;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("mode", &mode));
    embeddings_only_ = mode == "embeddings";
    starts_anew_ = mode != "state";
    OP_REQUIRES_OK(ctx, ctx->GetAttr("salt", &salt_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ps_index", &ps_index_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ps", &num_ps_));
    stored_.type = type == "float16"    ? ValueType::kFloat16
                   : type == "bfloat16" ? ValueType::kBfloat16
                                        : ValueType::kFloat32;
    OP_REQUIRES(ctx, ps_index_ < num_ps_,
                InvalidArgument("ps_index: expected a value below ", num_ps_, ", found ", ps_index_));
  }

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string path;
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    TablePtr table;
    TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, 0), &table));
    std::unique_ptr<Target> target;
    if (auto* native = dynamic_cast<NativeTable*>(table.get())) {
      target = std::make_unique<NativeTarget>(native);
    } else {
      TF_RETURN_IF_ERROR(PackedTarget::Make(table.get(), packed_dim_, &target));
    }
    const RowsKind& into = target->kind();
    if (!embeddings_only_ && (into.dims != stored_.dims || into.type != stored_.type || into.slots != stored_.slots)) {
      return InvalidArgument(path, ": expected ", into.DebugString(), ", found ", stored_.DebugString());
    }
    std::unique_ptr<ShardReader> reader;
    TF_RETURN_IF_ERROR(ShardReader::Open(ctx->env(), path, &reader));
    int64_t rows = 0;
    ShardBlock block;
    RowBlock converted;
    do {
      TF_RETURN_IF_ERROR(GoOn(ctx));
      TF_RETURN_IF_ERROR(reader->Next(&block));
      switch (block.kind) {
        case BlockKind::kRows:
          TF_RETURN_IF_ERROR(CheckRows(path, block));
          if (block.rows.row_class == 0 && (embeddings_only_ || !target->counts_keys())) break;
          KeepOwn(&block.rows);
          if (block.rows.keys.empty()) break;
          if (block.rows.row_class > 0) rows += block.rows.size();
          if (embeddings_only_) {
            TF_RETURN_IF_ERROR(EmbeddingsOf(path, block.rows, *target, &converted));
            TF_RETURN_IF_ERROR(target->Insert(ctx, converted));
          } else {
            ConvertMeta(into.decayed, &block.rows);
            TF_RETURN_IF_ERROR(target->Insert(ctx, block.rows));
          }
          break;
        case BlockKind::kRemoved:
          KeepOwn(&block.removed);
          if (!block.removed.empty()) TF_RETURN_IF_ERROR(target->Remove(ctx, block.removed));
          break;
        case BlockKind::kBloom:
          if (embeddings_only_) break;
          for (const BloomSegment& segment : block.bloom) {
            if (!OwnsPart(segment.index)) continue;
            const Status merged = target->MergeBloom(segment);
            if (!merged.ok()) return tensorflow::errors::CreateWithUpdatedMessage(
                merged, tensorflow::strings::StrCat(path, ": ", merged.message()));
          }
          break;
        case BlockKind::kEnd:
          break;
      }
    } while (block.kind != BlockKind::kEnd);
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output("rows", TensorShape({}), &output));
    output->scalar<int64_t>()() = rows;
    return OkStatus();
  }

 private:
  bool IsOwn(int64_t key) const { return OwnerOf(HashKey(key, salt_), num_ps_) == ps_index_; }

  // Whether any hash of a Bloom segment's range is of this PS.
  bool OwnsPart(int segment) const {
    const uint64_t first = static_cast<uint64_t>(segment) << (64 - kBloomBits);
    const uint64_t last = first + ((uint64_t{1} << (64 - kBloomBits)) - 1);
    return OwnerOf(first, num_ps_) <= ps_index_ && ps_index_ <= OwnerOf(last, num_ps_);
  }

  Status CheckRows(const std::string& path, const ShardBlock& block) const {
    const int row_class = block.rows.row_class;
    if (row_class > static_cast<int>(stored_.dims.size()) || block.row_bytes != stored_.RowBytes(row_class)) {
      return DataLoss(path, ": class ", row_class, " of ", stored_.DebugString(), ": found rows of ", block.row_bytes,
                      " bytes");
    }
    return OkStatus();
  }

  void KeepOwn(std::vector<int64_t>* keys) const {
    keys->erase(std::remove_if(keys->begin(), keys->end(), [this](int64_t key) { return !IsOwn(key); }), keys->end());
  }

  void KeepOwn(RowBlock* block) const {
    const size_t n = block->keys.size();
    const size_t row_bytes = n == 0 ? 0 : block->rows.size() / n;
    size_t kept = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!IsOwn(block->keys[i])) continue;
      if (kept != i) {
        block->keys[kept] = block->keys[i];
        block->meta[kept] = block->meta[i];
        std::memcpy(block->rows.data() + kept * row_bytes, block->rows.data() + i * row_bytes, row_bytes);
      }
      ++kept;
    }
    block->keys.resize(kept);
    block->meta.resize(kept);
    block->rows.resize(kept * row_bytes);
  }

  void ConvertMeta(bool decayed, RowBlock* block) const {
    if (decayed == stored_.decayed && !starts_anew_) return;
    for (RowMeta& meta : block->meta) {
      meta.frequency = Frequency(decayed, meta.frequency);
      if (starts_anew_) meta.last_step = kFirstStep;
    }
  }

  uint32_t Frequency(bool decayed, uint32_t bits) const {
    if (decayed == stored_.decayed) return bits;
    if (decayed) {
      const float value = static_cast<float>(bits);
      std::memcpy(&bits, &value, sizeof(bits));
      return bits;
    }
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value >= static_cast<float>(std::numeric_limits<uint32_t>::max())
               ? std::numeric_limits<uint32_t>::max()
               : static_cast<uint32_t>(std::lround(std::max(0.0f, value)));
  }

  // The same embeddings as new rows of `target`: slots at their start, frequencies kept, since they decide how wide a
  // row is and how long it stays.
  Status EmbeddingsOf(const std::string& path, const RowBlock& block, const Target& target, RowBlock* out) const {
    const RowsKind& into = target.kind();
    const int dim = stored_.dims[block.row_class - 1];
    int row_class = 1;
    while (row_class <= static_cast<int>(into.dims.size()) && into.dims[row_class - 1] < dim) ++row_class;
    if (row_class > static_cast<int>(into.dims.size())) {
      return InvalidArgument(path, ": expected embeddings of at most ", into.dims.back(), " values, found ", dim);
    }
    const int64_t n = block.size(), from_bytes = stored_.RowBytes(block.row_class);
    const int64_t to_bytes = into.RowBytes(row_class), embedding_bytes = into.EmbeddingBytes(row_class);
    const int wide = into.dims[row_class - 1];
    std::vector<float> slots(static_cast<size_t>(into.slots) * wide, 0.0f);
    if (target.optimizer() == nullptr) {
      const int given = std::min(into.slots, static_cast<int>(packed_slot_values_.size()));
      for (int slot = 0; slot < given; ++slot) std::fill_n(&slots[slot * wide], wide, packed_slot_values_[slot]);
    } else if (into.slots > 0) {
      target.optimizer()->FillSlots(wide, slots.data());
    }
    out->row_class = row_class;
    out->keys = block.keys;
    out->meta.assign(n, RowMeta());
    out->rows.assign(n * to_bytes, 0);
    for (int64_t i = 0; i < n; ++i) {
      out->meta[i].last_step = kFirstStep;
      out->meta[i].last_hour = block.meta[i].last_hour;
      out->meta[i].frequency = Frequency(into.decayed, block.meta[i].frequency);
      const char* from = block.rows.data() + i * from_bytes;
      char* to = out->rows.data() + i * to_bytes;
      for (int j = 0; j < dim; ++j) {
        FromFloat(ToFloat(stored_.type, from + j * BytesOf(stored_.type)), into.type, to + j * BytesOf(into.type));
      }
      std::memcpy(to + embedding_bytes, slots.data(), slots.size() * sizeof(float));
    }
    return OkStatus();
  }

  RowsKind stored_;
  int packed_dim_;
  std::vector<float> packed_slot_values_;
  bool embeddings_only_, starts_anew_;
  int64_t salt_;
  int ps_index_, num_ps_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterRestoreTable").Device(tensorflow::DEVICE_CPU), RestoreTable);

}  // namespace
}  // namespace ps_cluster
