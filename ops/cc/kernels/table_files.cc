// Files of a table's shard: their checksum, and their rows back into a table.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/cc/table/hashing.h"
#include "ops/cc/kernels/table_group.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/platform/env.h"

namespace ps_cluster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::DataLoss;
using tensorflow::errors::InvalidArgument;

constexpr size_t kBlockBytes = 4 << 20;
constexpr int64_t kBlockRows = 16384;

// Reads a file from front to back.
class BlockReader {
 public:
  Status Open(tensorflow::Env* env, const std::string& path) {
    path_ = path;
    TF_RETURN_IF_ERROR(env->GetFileSize(path, &size_));
    return env->NewRandomAccessFile(path, &file_);
  }
  uint64_t size() const { return size_; }

  Status Read(size_t bytes, char* out) {
    tensorflow::StringPiece read;
    TF_RETURN_IF_ERROR(file_->Read(offset_, bytes, &read, out));
    if (read.size() != bytes) return DataLoss(path_, ": ends before byte ", offset_ + bytes);
    if (read.data() != out) std::copy(read.begin(), read.end(), out);
    offset_ += bytes;
    return tensorflow::OkStatus();
  }

 private:
  std::string path_;
  tensorflow::uint64 size_ = 0;
  uint64_t offset_ = 0;
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
};

class FileChecksum : public OpKernel {
 public:
  explicit FileChecksum(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& file = ctx->input(0);
    OP_REQUIRES(ctx, file.NumElements() == 1, InvalidArgument("file: expected one path, found ", file.NumElements()));
    BlockReader reader;
    OP_REQUIRES_OK(ctx, reader.Open(ctx->env(), file.flat<tensorflow::tstring>()(0)));
    std::vector<char> block(kBlockBytes);
    uint32_t crc = 0;
    for (uint64_t at = 0; at < reader.size();) {
      const size_t n = std::min<uint64_t>(kBlockBytes, reader.size() - at);
      OP_REQUIRES_OK(ctx, reader.Read(n, block.data()));
      crc = tensorflow::crc32c::Extend(crc, block.data(), n);
      at += n;
    }
    Tensor *bytes_out = nullptr, *crc_out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &bytes_out));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &crc_out));
    bytes_out->scalar<int64_t>()() = static_cast<int64_t>(reader.size());
    crc_out->scalar<int64_t>()() = crc;
  }
};

class RestoreTable : public OpKernel {
 public:
  explicit RestoreTable(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("salt", &salt_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ps_index", &ps_index_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ps", &num_ps_));
  }

  void Compute(OpKernelContext* ctx) override {
    TablePtr table;
    OP_REQUIRES_OK(ctx, tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, 0), &table));
    for (const int i : {1, 2}) {
      OP_REQUIRES(ctx, ctx->input(i).NumElements() == 1,
                  InvalidArgument(i == 1 ? "keys_file" : "rows_file", ": expected one path, found ",
                                  ctx->input(i).NumElements()));
    }
    const std::string keys_file = ctx->input(1).flat<tensorflow::tstring>()(0);
    const std::string rows_file = ctx->input(2).flat<tensorflow::tstring>()(0);
    BlockReader keys_reader, rows_reader;
    OP_REQUIRES_OK(ctx, keys_reader.Open(ctx->env(), keys_file));
    OP_REQUIRES_OK(ctx, rows_reader.Open(ctx->env(), rows_file));
    OP_REQUIRES(ctx, table->key_dtype() == tensorflow::DT_INT64 && table->value_dtype() == tensorflow::DT_FLOAT,
                InvalidArgument("table: expected int64 keys and float32 rows, found ",
                                tensorflow::DataTypeString(table->key_dtype()), " keys and ",
                                tensorflow::DataTypeString(table->value_dtype()), " rows"));
    OP_REQUIRES(ctx, ps_index_ < num_ps_,
                InvalidArgument("ps_index: expected a value below ", num_ps_, ", found ", ps_index_));
    const int64_t row_floats = table->value_shape().num_elements();
    const int64_t total = keys_reader.size() / sizeof(int64_t);
    OP_REQUIRES(ctx,
                keys_reader.size() % sizeof(int64_t) == 0 &&
                    rows_reader.size() == static_cast<uint64_t>(total * row_floats) * sizeof(float),
                DataLoss(rows_file, ": expected ", total * row_floats * sizeof(float), " bytes for the ", total,
                         " keys of ", keys_file, ", found ", rows_reader.size()));
    std::vector<int64_t> keys(kBlockRows);
    std::vector<float> rows(kBlockRows * row_floats);
    int64_t inserted = 0;
    for (int64_t at = 0; at < total; at += kBlockRows) {
      const int64_t n = std::min(kBlockRows, total - at);
      OP_REQUIRES_OK(ctx, keys_reader.Read(n * sizeof(int64_t), reinterpret_cast<char*>(keys.data())));
      OP_REQUIRES_OK(ctx, rows_reader.Read(n * row_floats * sizeof(float), reinterpret_cast<char*>(rows.data())));
      int64_t kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (OwnerOf(HashKey(keys[i], salt_), num_ps_) != ps_index_) continue;
        keys[kept] = keys[i];
        std::copy_n(&rows[i * row_floats], row_floats, &rows[kept * row_floats]);
        ++kept;
      }
      if (kept == 0) continue;
      Tensor key_tensor, row_tensor;
      OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DT_INT64, TensorShape({kept}), &key_tensor));
      OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({kept, row_floats}), &row_tensor));
      std::copy_n(keys.data(), kept, key_tensor.flat<int64_t>().data());
      std::copy_n(rows.data(), kept * row_floats, row_tensor.flat<float>().data());
      OP_REQUIRES_OK(ctx, table->Insert(ctx, key_tensor, row_tensor));
      inserted += kept;
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<int64_t>()() = inserted;
  }

 private:
  int64_t salt_;
  int ps_index_, num_ps_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterFileChecksum").Device(tensorflow::DEVICE_CPU), FileChecksum);
REGISTER_KERNEL_BUILDER(Name("PsClusterRestoreTable").Device(tensorflow::DEVICE_CPU), RestoreTable);

}  // namespace
}  // namespace ps_cluster
