// Backward half of a step on a PS: all workers' gradients applied to the rows, once per key.
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

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

constexpr int64_t kParallelKeys = 8192;  // fewer are not worth other threads

// T: the type in which gradients travel.
template <typename T>
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
                          gradients.dim_size(1) == group_.dim(),
                      InvalidArgument("gradients: expected shape [", request.num_keys(), ", ",
                                      group_.dim(), "], found ", gradients.shape().DebugString()),
                      done);
    OP_REQUIRES_ASYNC(ctx, request.step >= 1,
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
    std::vector<GroupTable> tables;
    const Status status = Apply(ctx, shares, &buffer->packed_mutex(), &tables);
    const Now now = request.now();
    for (auto& share : shares) {
      if (share.token != tensorflow::CancellationManager::kInvalidToken) {
        share.ctx->cancellation_manager()->DeregisterCallback(share.token);
      }
      if (!status.ok()) share.ctx->SetStatus(status);
      share.done();
    }
    // The workers go on meanwhile. What is reclaimed was absent already.
    if (!status.ok()) return;
    for (const GroupTable& table : tables) {
      if (table.native != nullptr) table.native->SweepSlice(now);
    }
  }

 private:
  Status Apply(OpKernelContext* ctx, const std::vector<PushedGradients>& shares, tensorflow::mutex* packed_mutex,
               std::vector<GroupTable>* tables) const {
    const int num_tables = group_.num_tables();
    TF_RETURN_IF_ERROR(group_.Tables(ctx, tables));
    std::vector<Request> requests(shares.size());
    int64_t batch_rows = 0;
    for (size_t w = 0; w < shares.size(); ++w) {
      TF_RETURN_IF_ERROR(ParseRequest(shares[w].request, num_tables, &requests[w]));
      batch_rows += requests[w].batch_rows;
    }
    if (batch_rows == 0) return tensorflow::OkStatus();
    Now now = requests[0].now();
    for (const Request& request : requests) now.hour = std::max(now.hour, request.now().hour);
    const float rate = requests[0].learning_rate;
    const float scale = static_cast<float>(1.0 / static_cast<double>(batch_rows));
    MergedGradients merged;
    for (int t = 0; t < num_tables; ++t) {
      std::vector<GradientShare<T>> of_table;
      for (size_t w = 0; w < shares.size(); ++w) {
        const int64_t first = requests[w].first_key[t];
        of_table.push_back({requests[w].keys + first, requests[w].occurrences + first,
                            requests[w].first_key[t + 1] - first,
                            shares[w].gradients.flat<T>().data() + first * group_.dim()});
      }
      const GroupTable& table = (*tables)[t];
      if (table.native != nullptr && shares.size() == 1) {
        TF_RETURN_IF_ERROR(PushAlone(ctx, table.native, of_table[0], now, rate, scale, &merged.gradients));
        continue;
      }
      MergeGradients(of_table, group_.dim(), &merged);
      if (merged.keys.empty()) continue;
      if (table.native != nullptr) {
        TF_RETURN_IF_ERROR(PushTable(ctx, table.native, merged.keys.data(), merged.occurrences.data(),
                                     merged.gradients.data(), merged.keys.size(), now, rate, scale));
      } else {
        // TFRA's table knows no update in place: rows are read, changed and written back by one at a time.
        tensorflow::mutex_lock lock(*packed_mutex);
        TF_RETURN_IF_ERROR(group_.packed().Push(ctx, t, table.table.get(), merged.keys.data(),
                                                merged.occurrences.data(), merged.gradients.data(),
                                                merged.keys.size(), now, rate, scale));
      }
    }
    return tensorflow::OkStatus();
  }

  // A single worker's share, whose keys need no merging. `widened` is scratch.
  Status PushAlone(OpKernelContext* ctx, NativeTable* table, const GradientShare<T>& share, Now now, float rate,
                   float scale, std::vector<float>* widened) const {
    if (share.num_keys == 0) return tensorflow::OkStatus();
    if constexpr (std::is_same_v<T, float>) {
      return PushTable(ctx, table, share.keys, share.occurrences, share.gradients, share.num_keys, now, rate, scale);
    } else {
      widened->resize(share.num_keys * group_.dim());
      std::transform(share.gradients, share.gradients + widened->size(), widened->begin(),
                     [](T value) { return static_cast<float>(value); });
      return PushTable(ctx, table, share.keys, share.occurrences, widened->data(), share.num_keys, now, rate, scale);
    }
  }

  Status PushTable(OpKernelContext* ctx, NativeTable* table, const int64_t* keys, const uint32_t* occurrences,
                   const float* gradients, int64_t n, Now now, float rate, float scale) const {
    const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
    Table::Parallel parallel;
    if (n >= kParallelKeys && threads->num_threads > 1) {
      const int64_t cost = n * (100 + 8 * group_.dim());  // cycles, roughly
      parallel = [threads, cost](int64_t total, const std::function<void(int64_t, int64_t)>& work) {
        tensorflow::Shard(threads->num_threads, threads->workers, total, cost / std::max<int64_t>(total, 1), work);
      };
    }
    return Guarded([&] { table->table().Push(keys, occurrences, gradients, n, now, rate, parallel, scale); });
  }

  TableGroup group_;
  int num_workers_;
  std::string shared_name_;
};

#define REGISTER_PUSH(T) \
  REGISTER_KERNEL_BUILDER(Name("PsClusterPush").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), Push<T>)
REGISTER_PUSH(float);
REGISTER_PUSH(Eigen::half);
REGISTER_PUSH(Eigen::bfloat16);
#undef REGISTER_PUSH

}  // namespace
}  // namespace ps_cluster
