// A table into a shard's file, in two ops: the first fixes what is saved, the second writes it while the table changes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/cc/files/shard_file.h"
#include "ops/cc/kernels/native_table.h"
#include "ops/cc/kernels/own_thread.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/path.h"

namespace ps_cluster {
namespace {

using tensorflow::Env;
using tensorflow::OkStatus;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::StringPiece;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::DataLoss;
using tensorflow::errors::FailedPrecondition;
using tensorflow::errors::InvalidArgument;

using NativeTablePtr = tensorflow::core::RefCountPtr<NativeTable>;

constexpr char kContainer[] = "ps_cluster_saves";

// A snapshot between the two ops, and the table under it.
class BegunSave : public tensorflow::ResourceBase {
 public:
  BegunSave(NativeTablePtr table, std::unique_ptr<Snapshot> snapshot)
      : table_(std::move(table)), snapshot_(std::move(snapshot)) {}
  std::string DebugString() const override { return "a begun save"; }
  NativeTable* table() { return table_.get(); }
  Snapshot* snapshot() { return snapshot_.get(); }

 private:
  NativeTablePtr table_;  // destroyed last
  std::unique_ptr<Snapshot> snapshot_;
};

using BegunSavePtr = tensorflow::core::RefCountPtr<BegunSave>;

std::string NameOf(OpKernelContext* ctx) {
  const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 0);
  return handle.container() + "/" + handle.name();
}

// Takes the begun save out of the hands of the resource manager; null when there is none.
BegunSavePtr Take(OpKernelContext* ctx) {
  BegunSave* found = nullptr;
  if (!ctx->resource_manager()->Lookup(kContainer, NameOf(ctx), &found).ok()) return BegunSavePtr();
  BegunSavePtr taken(found);
  // Of two that look it up at once one deletes it.
  if (!ctx->resource_manager()->Delete<BegunSave>(kContainer, NameOf(ctx)).ok()) return BegunSavePtr();
  return taken;
}

class BeginSave : public OwnThreadOp {
 public:
  explicit BeginSave(OpKernelConstruction* ctx) : OwnThreadOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("delta", &delta_));
  }

 protected:
  Status Run(OpKernelContext* ctx) override {
    NativeTablePtr table;
    TF_RETURN_IF_ERROR(NativeTableFromInput(ctx, 0, &table));
    Take(ctx);  // one that nobody wrote is given up
    std::unique_ptr<Snapshot> snapshot;
    TF_RETURN_IF_ERROR(Guarded([&] { snapshot = table->table().BeginSnapshot(delta_); }));
    if (snapshot == nullptr) return FailedPrecondition("table: a save of it is going on");
    Tensor* is_delta = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output("is_delta", TensorShape({}), &is_delta));
    is_delta->scalar<bool>()() = snapshot->is_delta();
    return ctx->resource_manager()->Create(kContainer, NameOf(ctx),
                                           new BegunSave(std::move(table), std::move(snapshot)));
  }

 private:
  bool delta_;
};

class WriteTable : public OwnThreadOp {
 public:
  using OwnThreadOp::OwnThreadOp;

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string path, header;
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    TF_RETURN_IF_ERROR(Text(ctx, "header", &header));
    BegunSavePtr save = Take(ctx);
    if (save == nullptr) return FailedPrecondition(path, ": no save of the table was begun");
    const Status status = Write(ctx, path, header, save.get());
    return status;
  }

 private:
  static Status Write(OpKernelContext* ctx, const std::string& path, const std::string& header, BegunSave* save) {
    Snapshot* const snapshot = save->snapshot();
    const Table& table = save->table()->table();
    TF_RETURN_IF_ERROR(ctx->env()->RecursivelyCreateDir(std::string(tensorflow::io::Dirname(path))));
    std::unique_ptr<ShardWriter> writer;
    TF_RETURN_IF_ERROR(ShardWriter::Create(ctx->env(), path, header, snapshot->is_delta(), &writer));
    bool more = true;
    if (snapshot->is_delta()) {
      std::vector<int64_t> keys;
      for (;;) {
        TF_RETURN_IF_ERROR(Guarded([&] { more = snapshot->NextRemoved(RowsPerBlock(0), &keys); }));
        if (!more) break;
        TF_RETURN_IF_ERROR(writer->AddRemoved(keys));
      }
    }
    int64_t widest = 0;
    for (int row_class = 0; row_class < table.num_classes(); ++row_class) {
      widest = std::max(widest, table.RowBytes(row_class));
    }
    RowBlock block;
    for (;;) {
      TF_RETURN_IF_ERROR(GoOn(ctx));
      TF_RETURN_IF_ERROR(Guarded([&] { more = snapshot->NextRows(RowsPerBlock(widest), &block); }));
      if (!more) break;
      TF_RETURN_IF_ERROR(writer->AddRows(block));
    }
    BloomSegment segment;
    for (;;) {
      TF_RETURN_IF_ERROR(Guarded([&] { more = snapshot->NextBloom(&segment); }));
      if (!more) break;
      TF_RETURN_IF_ERROR(writer->AddBloom(segment));
    }
    ShardTotals totals;
    TF_RETURN_IF_ERROR(writer->Finish(&totals));
    TF_RETURN_IF_ERROR(Guarded([&] { snapshot->Commit(); }));
    return SetTotals(ctx, totals);
  }
};

// The rows that TFRA wrote to two flat files.
class PackTable : public OwnThreadOp {
 public:
  explicit PackTable(OpKernelConstruction* ctx) : OwnThreadOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slots", &slots_));
  }

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string keys_path, rows_path, path, header;
    TF_RETURN_IF_ERROR(Text(ctx, "keys_file", &keys_path));
    TF_RETURN_IF_ERROR(Text(ctx, "rows_file", &rows_path));
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    TF_RETURN_IF_ERROR(Text(ctx, "header", &header));
    const Status status = Pack(ctx, keys_path, rows_path, path, header);
    ctx->env()->DeleteFile(keys_path).IgnoreError();
    ctx->env()->DeleteFile(rows_path).IgnoreError();
    return status;
  }

 private:
  Status Pack(OpKernelContext* ctx, const std::string& keys_path, const std::string& rows_path,
              const std::string& path, const std::string& header) const {
    Env* const env = ctx->env();
    const int64_t values = static_cast<int64_t>(dim_) * (1 + slots_);
    const int64_t row_bytes = (values + 2) * sizeof(float);
    tensorflow::uint64 keys_bytes, rows_bytes;
    std::unique_ptr<tensorflow::RandomAccessFile> keys_file, rows_file;
    TF_RETURN_IF_ERROR(env->GetFileSize(keys_path, &keys_bytes));
    TF_RETURN_IF_ERROR(env->GetFileSize(rows_path, &rows_bytes));
    const int64_t total = keys_bytes / sizeof(int64_t);
    if (keys_bytes % sizeof(int64_t) != 0 || rows_bytes != static_cast<uint64_t>(total * row_bytes)) {
      return DataLoss(rows_path, ": expected ", total * row_bytes, " bytes for the ", keys_bytes, " bytes of ",
                      keys_path, ", found ", rows_bytes);
    }
    TF_RETURN_IF_ERROR(env->NewRandomAccessFile(keys_path, &keys_file));
    TF_RETURN_IF_ERROR(env->NewRandomAccessFile(rows_path, &rows_file));
    std::unique_ptr<ShardWriter> writer;
    TF_RETURN_IF_ERROR(ShardWriter::Create(env, path, header, /*is_delta=*/false, &writer));
    const int64_t most = RowsPerBlock(row_bytes);
    RowBlock block;
    block.row_class = 1;
    std::vector<char> rows;
    for (int64_t at = 0; at < total; at += most) {
      TF_RETURN_IF_ERROR(GoOn(ctx));
      const int64_t n = std::min(most, total - at);
      block.keys.resize(n);
      block.meta.assign(n, RowMeta());
      rows.resize(n * row_bytes);
      block.rows.resize(n * values * sizeof(float));
      TF_RETURN_IF_ERROR(Read(*keys_file, at * sizeof(int64_t), n * sizeof(int64_t), block.keys.data()));
      TF_RETURN_IF_ERROR(Read(*rows_file, at * row_bytes, n * row_bytes, rows.data()));
      int64_t kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        const char* const row = rows.data() + i * row_bytes;
        RowMeta meta;
        std::memcpy(&meta.frequency, row + values * sizeof(float), sizeof(uint32_t));
        std::memcpy(&meta.last_step, row + (values + 1) * sizeof(float), sizeof(uint32_t));
        if (meta.last_step == 0) continue;  // never written
        block.keys[kept] = block.keys[i];
        block.meta[kept] = meta;
        std::memcpy(block.rows.data() + kept * values * sizeof(float), row, values * sizeof(float));
        ++kept;
      }
      block.keys.resize(kept);
      block.meta.resize(kept);
      block.rows.resize(kept * values * sizeof(float));
      TF_RETURN_IF_ERROR(writer->AddRows(block));
    }
    ShardTotals totals;
    TF_RETURN_IF_ERROR(writer->Finish(&totals));
    return SetTotals(ctx, totals);
  }

  static Status Read(const tensorflow::RandomAccessFile& file, uint64_t offset, size_t bytes, void* out) {
    StringPiece read;
    TF_RETURN_IF_ERROR(file.Read(offset, bytes, &read, static_cast<char*>(out)));
    if (read.data() != out) std::memcpy(out, read.data(), read.size());
    return OkStatus();
  }

  int dim_, slots_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterBeginSave").Device(tensorflow::DEVICE_CPU), BeginSave);
REGISTER_KERNEL_BUILDER(Name("PsClusterWriteTable").Device(tensorflow::DEVICE_CPU), WriteTable);
REGISTER_KERNEL_BUILDER(Name("PsClusterPackTable").Device(tensorflow::DEVICE_CPU), PackTable);

}  // namespace
}  // namespace ps_cluster
