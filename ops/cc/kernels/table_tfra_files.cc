// A native table in the files of TFRA's `save_to_file_system`: raw keys in one, raw vectors in the other.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ops/cc/kernels/native_table.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"

namespace ps_cluster {
namespace {

using tensorflow::Env;
using tensorflow::OkStatus;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::StringPiece;
using tensorflow::Tensor;
using tensorflow::errors::DataLoss;
using tensorflow::errors::InvalidArgument;

using NativeTablePtr = tensorflow::core::RefCountPtr<NativeTable>;

constexpr char kKeys[] = "-keys";
constexpr char kValues[] = "-values";
constexpr int64_t kMostBlockRows = 65536;  // TFRA's default buffer of 4 million rows would be a copy of the table

// The text inputs 1 and 2: folder and file name, without `-keys` and `-values`.
Status ReadPath(OpKernelContext* ctx, std::string* folder, std::string* name) {
  for (const int i : {1, 2}) {
    if (ctx->input(i).NumElements() != 1) {
      return InvalidArgument(i == 1 ? "folder" : "file_name", ": expected one text, found ",
                             ctx->input(i).NumElements());
    }
  }
  *folder = ctx->input(1).flat<tensorflow::tstring>()(0);
  *name = ctx->input(2).flat<tensorflow::tstring>()(0);
  return OkStatus();
}

class SaveFiles : public OpKernel {
 public:
  explicit SaveFiles(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("append", &append_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("block_rows", &block_rows_));
  }

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    std::string folder, name;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    OP_REQUIRES_OK(ctx, ReadPath(ctx, &folder, &name));
    OP_REQUIRES_OK(ctx, ctx->env()->RecursivelyCreateDir(folder));
    OP_REQUIRES_OK(ctx, Save(ctx->env(), tensorflow::io::JoinPath(folder, name), table.get()));
  }

 private:
  Status Save(Env* env, const std::string& path, NativeTable* table) const {
    // Whole files appear at once, appended ones grow where they are.
    const std::string suffix = append_ ? "" : ".part";
    std::unique_ptr<tensorflow::WritableFile> keys_file, values_file;
    TF_RETURN_IF_ERROR(Open(env, path + kKeys + suffix, &keys_file));
    TF_RETURN_IF_ERROR(Open(env, path + kValues + suffix, &values_file));
    uint64_t cursor = 0;
    RowBlock block;
    std::vector<char> values;
    for (bool more = true;;) {
      TF_RETURN_IF_ERROR(Guarded([&] {
        more = table->table().Export(&cursor, std::min(block_rows_, kMostBlockRows), &block);
        if (more && block.row_class != 0) {
          values.resize(block.size() * table->value_bytes());
          table->CopyEmbeddings(block, values.data());
        }
      }));
      if (!more) break;
      if (block.row_class == 0) continue;
      TF_RETURN_IF_ERROR(keys_file->Append(
          StringPiece(reinterpret_cast<const char*>(block.keys.data()), block.size() * sizeof(int64_t))));
      TF_RETURN_IF_ERROR(values_file->Append(StringPiece(values.data(), values.size())));
    }
    TF_RETURN_IF_ERROR(keys_file->Close());
    TF_RETURN_IF_ERROR(values_file->Close());
    if (append_) return OkStatus();
    TF_RETURN_IF_ERROR(env->RenameFile(path + kKeys + suffix, path + kKeys));
    return env->RenameFile(path + kValues + suffix, path + kValues);
  }

  Status Open(Env* env, const std::string& path, std::unique_ptr<tensorflow::WritableFile>* file) const {
    return append_ ? env->NewAppendableFile(path, file) : env->NewWritableFile(path, file);
  }

  bool append_;
  int64_t block_rows_;
};

class LoadFiles : public OpKernel {
 public:
  explicit LoadFiles(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("whole_folder", &whole_folder_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("block_rows", &block_rows_));
  }

  void Compute(OpKernelContext* ctx) override {
    NativeTablePtr table;
    std::string folder, name;
    OP_REQUIRES_OK(ctx, NativeTableFromInput(ctx, 0, &table));
    OP_REQUIRES_OK(ctx, ReadPath(ctx, &folder, &name));
    std::set<std::string> paths;
    if (whole_folder_) {
      // All shards of the variable: TFRA ends its name with _mht_NofM.
      const std::string separator = "_mht_";
      const size_t at = name.rfind(separator);
      const std::string start = at == std::string::npos ? name : name.substr(0, at + separator.size());
      std::vector<std::string> found;
      OP_REQUIRES_OK(ctx, ctx->env()->GetMatchingPaths(tensorflow::io::JoinPath(folder, start) + "*" + kKeys, &found));
      for (const std::string& path : found) paths.insert(path.substr(0, path.size() - (sizeof(kKeys) - 1)));
    } else {
      paths.insert(tensorflow::io::JoinPath(folder, name));
    }
    for (const std::string& path : paths) OP_REQUIRES_OK(ctx, Load(ctx->env(), path, table.get()));
  }

 private:
  Status Load(Env* env, const std::string& path, NativeTable* table) const {
    const std::string keys_path = path + kKeys, values_path = path + kValues;
    tensorflow::uint64 keys_bytes, values_bytes;
    std::unique_ptr<tensorflow::RandomAccessFile> keys_file, values_file;
    TF_RETURN_IF_ERROR(env->GetFileSize(keys_path, &keys_bytes));
    TF_RETURN_IF_ERROR(env->GetFileSize(values_path, &values_bytes));
    TF_RETURN_IF_ERROR(env->NewRandomAccessFile(keys_path, &keys_file));
    TF_RETURN_IF_ERROR(env->NewRandomAccessFile(values_path, &values_file));
    const int64_t total = keys_bytes / sizeof(int64_t);
    if (keys_bytes % sizeof(int64_t) != 0 || values_bytes != static_cast<uint64_t>(total * table->value_bytes())) {
      return DataLoss(values_path, ": expected ", total * table->value_bytes(), " bytes for the ", total, " keys of ",
                      keys_path, ", found ", values_bytes);
    }
    const int64_t block_rows = std::min(block_rows_, kMostBlockRows);
    std::vector<int64_t> keys(std::min(block_rows, total));
    std::vector<char> values(keys.size() * table->value_bytes());
    for (int64_t at = 0; at < total; at += block_rows) {
      const int64_t n = std::min(block_rows, total - at);
      TF_RETURN_IF_ERROR(
          Read(*keys_file, at * sizeof(int64_t), n * sizeof(int64_t), reinterpret_cast<char*>(keys.data())));
      TF_RETURN_IF_ERROR(Read(*values_file, at * table->value_bytes(), n * table->value_bytes(), values.data()));
      TF_RETURN_IF_ERROR(Guarded([&] { table->table().Insert(keys.data(), n, values.data()); }));
    }
    return OkStatus();
  }

  static Status Read(const tensorflow::RandomAccessFile& file, uint64_t offset, size_t bytes, char* out) {
    StringPiece read;
    TF_RETURN_IF_ERROR(file.Read(offset, bytes, &read, out));
    if (read.data() != out) std::copy(read.begin(), read.end(), out);
    return OkStatus();
  }

  bool whole_folder_;
  int64_t block_rows_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterTableSaveFiles").Device(tensorflow::DEVICE_CPU), SaveFiles);
REGISTER_KERNEL_BUILDER(Name("PsClusterTableLoadFiles").Device(tensorflow::DEVICE_CPU), LoadFiles);

}  // namespace
}  // namespace ps_cluster
