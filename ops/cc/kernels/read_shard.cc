// A shard's file read where there is no table: for checks, inspection and export.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ops/cc/files/shard_file.h"
#include "ops/cc/kernels/own_thread.h"

namespace ps_cluster {
namespace {

using tensorflow::OkStatus;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

constexpr int kCursorWords = sizeof(ShardCursor) / sizeof(int64_t);
static_assert(sizeof(ShardCursor) % sizeof(int64_t) == 0, "a cursor is whole words");

Status SetCursor(OpKernelContext* ctx, const ShardCursor& cursor) {
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output("next", TensorShape({kCursorWords}), &output));
  std::memcpy(output->data(), &cursor, sizeof(cursor));
  return OkStatus();
}

class ShardHeader : public OwnThreadOp {
 public:
  using OwnThreadOp::OwnThreadOp;

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string path;
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    std::unique_ptr<ShardReader> reader;
    TF_RETURN_IF_ERROR(ShardReader::Open(ctx->env(), path, &reader));
    Tensor *header = nullptr, *is_delta = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output("header", TensorShape({}), &header));
    TF_RETURN_IF_ERROR(ctx->allocate_output("is_delta", TensorShape({}), &is_delta));
    header->scalar<tensorflow::tstring>()() = reader->header();
    is_delta->scalar<bool>()() = reader->is_delta();
    return SetCursor(ctx, reader->cursor());
  }
};

class ReadShard : public OwnThreadOp {
 public:
  using OwnThreadOp::OwnThreadOp;

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string path;
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    const Tensor* cursor_tensor;
    TF_RETURN_IF_ERROR(ctx->input("cursor", &cursor_tensor));
    if (cursor_tensor->NumElements() != kCursorWords) {
      return InvalidArgument("cursor: expected ", kCursorWords, " values, found ", cursor_tensor->NumElements());
    }
    ShardCursor cursor;
    std::memcpy(static_cast<void*>(&cursor), cursor_tensor->data(), sizeof(cursor));
    std::unique_ptr<ShardReader> reader;
    TF_RETURN_IF_ERROR(ShardReader::Open(ctx->env(), path, &reader));
    reader->Seek(cursor);
    ShardBlock block;
    TF_RETURN_IF_ERROR(reader->Next(&block));
    TF_RETURN_IF_ERROR(SetCursor(ctx, reader->cursor()));
    if (block.kind == BlockKind::kRemoved) block.rows.keys = std::move(block.removed);
    for (const BloomSegment& segment : block.bloom) block.rows.keys.push_back(segment.index);
    const int64_t n = block.rows.size();
    const int64_t with_meta = static_cast<int64_t>(block.rows.meta.size());
    const int64_t row_bytes = with_meta > 0 ? block.row_bytes : 0;
    Tensor *kind = nullptr, *row_class = nullptr, *keys = nullptr, *meta = nullptr, *rows = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output("kind", TensorShape({}), &kind));
    TF_RETURN_IF_ERROR(ctx->allocate_output("row_class", TensorShape({}), &row_class));
    TF_RETURN_IF_ERROR(ctx->allocate_output("keys", TensorShape({n}), &keys));
    TF_RETURN_IF_ERROR(ctx->allocate_output("meta", TensorShape({with_meta, 3}), &meta));
    TF_RETURN_IF_ERROR(ctx->allocate_output("rows", TensorShape({with_meta, row_bytes}), &rows));
    kind->scalar<int32_t>()() = static_cast<int32_t>(block.kind);
    row_class->scalar<int32_t>()() = block.rows.row_class;
    std::copy(block.rows.keys.begin(), block.rows.keys.end(), keys->flat<int64_t>().data());
    auto* words = meta->flat<tensorflow::uint32>().data();
    for (int64_t i = 0; i < with_meta; ++i) {
      words[3 * i] = block.rows.meta[i].last_step;
      words[3 * i + 1] = block.rows.meta[i].frequency;
      words[3 * i + 2] = block.rows.meta[i].last_hour;
    }
    if (!block.rows.rows.empty()) std::memcpy(rows->data(), block.rows.rows.data(), block.rows.rows.size());
    return OkStatus();
  }
};

class CheckShard : public OwnThreadOp {
 public:
  using OwnThreadOp::OwnThreadOp;

 protected:
  Status Run(OpKernelContext* ctx) override {
    std::string path;
    TF_RETURN_IF_ERROR(Text(ctx, "path", &path));
    std::unique_ptr<ShardReader> reader;
    TF_RETURN_IF_ERROR(ShardReader::Open(ctx->env(), path, &reader));
    ShardBlock block;
    do {
      TF_RETURN_IF_ERROR(GoOn(ctx));
      TF_RETURN_IF_ERROR(reader->Next(&block));
    } while (block.kind != BlockKind::kEnd);
    return SetTotals(ctx, reader->totals());
  }
};

REGISTER_KERNEL_BUILDER(Name("PsClusterShardHeader").Device(tensorflow::DEVICE_CPU), ShardHeader);
REGISTER_KERNEL_BUILDER(Name("PsClusterReadShard").Device(tensorflow::DEVICE_CPU), ReadShard);
REGISTER_KERNEL_BUILDER(Name("PsClusterCheckShard").Device(tensorflow::DEVICE_CPU), CheckShard);

}  // namespace
}  // namespace ps_cluster
