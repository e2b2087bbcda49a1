// Ops that take as long as a disk does: each runs on a thread of its own, so that the threads that training uses are
// never all taken by it.
#ifndef PS_CLUSTER_OPS_KERNELS_OWN_THREAD_H_
#define PS_CLUSTER_OPS_KERNELS_OWN_THREAD_H_

#include <cstdint>
#include <string>

#include "ops/cc/files/shard_file.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

class OwnThreadOp : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final {
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      const tensorflow::Status status = Run(ctx);
      if (!status.ok()) ctx->SetStatus(status);
      done();
    });
  }

 protected:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx) = 0;

  // Ask between blocks.
  static tensorflow::Status GoOn(tensorflow::OpKernelContext* ctx) {
    auto* cancellation = ctx->cancellation_manager();
    return cancellation != nullptr && cancellation->IsCancelled()
               ? tensorflow::errors::Cancelled("the step was cancelled")
               : tensorflow::OkStatus();
  }

  static tensorflow::Status Text(tensorflow::OpKernelContext* ctx, const char* input, std::string* text) {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(ctx->input(input, &tensor));
    if (tensor->NumElements() != 1) {
      return tensorflow::errors::InvalidArgument(input, ": expected one text, found ", tensor->NumElements());
    }
    *text = tensor->flat<tensorflow::tstring>()(0);
    return tensorflow::OkStatus();
  }

  // int64 [6]: rows, counted keys, removed keys, Bloom segments, bytes, digest.
  static tensorflow::Status SetTotals(tensorflow::OpKernelContext* ctx, const ShardTotals& totals) {
    tensorflow::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output("totals", tensorflow::TensorShape({6}), &output));
    auto words = output->flat<int64_t>();
    words(0) = static_cast<int64_t>(totals.rows);
    words(1) = static_cast<int64_t>(totals.counted_keys);
    words(2) = static_cast<int64_t>(totals.removed);
    words(3) = static_cast<int64_t>(totals.bloom_segments);
    words(4) = static_cast<int64_t>(totals.bytes);
    words(5) = totals.digest;
    return tensorflow::OkStatus();
  }
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_OWN_THREAD_H_
