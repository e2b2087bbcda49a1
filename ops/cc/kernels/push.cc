// Backward half of a step on a PS: all workers' gradients applied to the rows, once per key.
#include <cstring>
#include <memory>
#include <string>

#include "ops/cc/kernels/merge_gradients.h"
#include "ops/cc/kernels/push_buffer.h"
#include "ops/cc/kernels/request.h"
#include "ops/cc/kernels/table_group.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace ps_cluster {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

class Push : public AsyncOpKernel {
 public:
  explicit Push(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, group_.Init(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_workers", &num_workers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shared_name", &shared_name_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    const Tensor& request_tensor = ctx->input(group_.num_tables());
    const Tensor& gradients = ctx->input(group_.num_tables() + 1);
    Request request;
    OP_REQUIRES_OK_ASYNC(ctx, ParseRequest(request_tensor, group_.num_tables(), &request), done);
    OP_REQUIRES_ASYNC(ctx,
                      gradients.dims() == 2 && gradients.dim_size(0) == request.num_keys() &&
                          gradients.dim_size(1) == group_.optimizer().dim,
                      InvalidArgument("gradients: expected shape [", request.num_keys(), ", ",
                                      group_.optimizer().dim, "], found ", gradients.shape().DebugString()),
                      done);
    OP_REQUIRES_ASYNC(ctx, request.step >= 1 && request.step < (int64_t{1} << 31),
                      InvalidArgument("request: expected a step from 1 to 2^31 - 1, found ", request.step), done);
    OP_REQUIRES_ASYNC(ctx, request.batch_rows >= 0,
                      InvalidArgument("request: expected a batch of 0 rows or more, found ", request.batch_rows), done);
    PushBuffer* buffer = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx,
                         ctx->resource_manager()->LookupOrCreate<PushBuffer>("ps_cluster", shared_name_, &buffer,
                                                                             [](PushBuffer** created) {
                                                                               *created = new PushBuffer;
                                                                               return tensorflow::OkStatus();
                                                                             }),
                         done);
    tensorflow::core::ScopedUnref unref(buffer);
    std::vector<PushedGradients> shares;
    // Asynchronous updates are synchronous ones of a single worker.
    const int64_t rank = num_workers_ == 1 ? 0 : request.rank;
    if (num_workers_ == 1) {
      shares.push_back({ctx, done, request_tensor, gradients});
    } else {
      OP_REQUIRES_OK_ASYNC(
          ctx, buffer->Add(request.step, rank, num_workers_, {ctx, done, request_tensor, gradients}, &shares), done);
      if (shares.empty()) return;
    }
    Status status;
    {
      tensorflow::mutex_lock lock(buffer->apply_mutex());
      status = Apply(ctx, shares);
    }
    for (auto& share : shares) {
      if (share.token != tensorflow::CancellationManager::kInvalidToken) {
        share.ctx->cancellation_manager()->DeregisterCallback(share.token);
      }
      if (!status.ok()) share.ctx->SetStatus(status);
      share.done();
    }
  }

 private:
  Status Apply(OpKernelContext* ctx, const std::vector<PushedGradients>& shares) {
    const int num_tables = group_.num_tables();
    const int dim = group_.optimizer().dim;
    std::vector<TablePtr> tables;
    TF_RETURN_IF_ERROR(group_.Tables(ctx, &tables));
    std::vector<Request> requests(shares.size());
    int64_t batch_rows = 0;
    for (size_t w = 0; w < shares.size(); ++w) {
      TF_RETURN_IF_ERROR(ParseRequest(shares[w].request, num_tables, &requests[w]));
      batch_rows += requests[w].batch_rows;
    }
    if (batch_rows == 0) return tensorflow::OkStatus();
    const float scale = static_cast<float>(1.0 / static_cast<double>(batch_rows));
    std::vector<int64_t> keys;
    std::vector<float> gradients;
    for (int t = 0; t < num_tables; ++t) {
      std::vector<GradientShare> of_table;
      for (size_t w = 0; w < shares.size(); ++w) {
        const int64_t first = requests[w].first_key[t];
        of_table.push_back({requests[w].keys + first, requests[w].first_key[t + 1] - first,
                            shares[w].gradients.flat<float>().data() + first * dim});
      }
      MergeGradients(of_table, dim, scale, &keys, &gradients);
      if (!keys.empty()) {
        TF_RETURN_IF_ERROR(UpdateTable(ctx, t, tables[t].get(), keys, gradients, requests[0]));
      }
    }
    return tensorflow::OkStatus();
  }

  Status UpdateTable(OpKernelContext* ctx, int t, tensorflow::lookup::LookupInterface* table,
                     const std::vector<int64_t>& keys, const std::vector<float>& gradients, const Request& request) {
    const SparseOptimizer& optimizer = group_.optimizer();
    const int row_floats = optimizer.row_floats();
    const StepConstants constants = optimizer.rule.At(request.step, request.learning_rate);
    Tensor key_tensor, row_tensor;
    TF_RETURN_IF_ERROR(group_.Find(ctx, table, keys.data(), keys.size(), &key_tensor, &row_tensor));
    float* rows = row_tensor.flat<float>().data();
    const auto update = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = rows + i * row_floats;
        if (TableGroup::LastStep(row, row_floats) == 0) {
          group_.FillEmbedding(t, keys[i], row);
          optimizer.FillSlots(row);
        }
        optimizer.Update(constants, gradients.data() + i * optimizer.dim, row);
        TableGroup::SetLastStep(request.step, row_floats, row);
      }
    };
    const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(threads->num_threads, threads->workers, keys.size(), 8 * row_floats, update);
    return table->Insert(ctx, key_tensor, row_tensor);
  }

  TableGroup group_;
  int num_workers_;
  std::string shared_name_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterPush").Device(tensorflow::DEVICE_CPU), Push);

}  // namespace
}  // namespace ps_cluster
