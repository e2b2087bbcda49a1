// Forward half of a step on a PS: the embeddings of the keys a worker asks for.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "ops/cc/kernels/request.h"
#include "ops/cc/kernels/table_group.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace ps_cluster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int64_t kKeysOfAThread = 4096;  // fewer are not worth another thread
constexpr int64_t kBlockKeys = 1024;      // float32 embeddings that wait in the cache to become 16 bits wide

// T: the type in which embeddings travel.
template <typename T>
class Pull : public OpKernel {
 public:
  explicit Pull(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, group_.Init(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("training", &training_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<GroupTable> tables;
    OP_REQUIRES_OK(ctx, group_.Tables(ctx, &tables));
    Request request;
    OP_REQUIRES_OK(ctx, ParseRequest(ctx->input(group_.num_tables()), group_.num_tables(), &request));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({request.num_keys(), group_.dim()}), &output));
    T* out = output->flat<T>().data();
    for (int t = 0; t < group_.num_tables(); ++t) {
      const int64_t* keys = request.keys + request.first_key[t];
      const int64_t n = request.first_key[t + 1] - request.first_key[t];
      if (n == 0) continue;
      OP_REQUIRES_OK(ctx, PullTable(ctx, t, tables[t], keys, n, request.now(), out));
      out += n * group_.dim();
    }
  }

 private:
  Status PullTable(OpKernelContext* ctx, int t, const GroupTable& table, const int64_t* keys, int64_t n, Now now,
                   T* out) const {
    if (table.native == nullptr) {
      return Narrowed(n, out, [&](int64_t begin, int64_t count, float* rows) {
        return group_.packed().Pull(ctx, t, table.table.get(), keys + begin, count, training_, rows);
      });
    }
    Table& native = table.native->table();
    const auto pull = [&](int64_t first, int64_t last) {
      return Narrowed(last - first, out + first * group_.dim(), [&](int64_t begin, int64_t count, float* rows) {
        return Guarded([&] { native.Pull(keys + first + begin, count, now, training_, rows); });
      });
    };
    const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
    const int most = static_cast<int>(std::min<int64_t>(threads->num_threads, n / kKeysOfAThread));
    if (most < 2) return pull(0, n);
    tensorflow::mutex mutex;
    Status status;
    tensorflow::Shard(most, threads->workers, n, 100 + group_.dim(), [&](int64_t first, int64_t last) {
      const Status part = pull(first, last);
      tensorflow::mutex_lock lock(mutex);
      status.Update(part);
    });
    return status;
  }

  // Calls `read(begin, count, rows)` for float32 rows [count, dim] until `n` are in `out`.
  template <typename Read>
  Status Narrowed(int64_t n, T* out, const Read& read) const {
    if constexpr (std::is_same_v<T, float>) {
      return read(0, n, out);
    } else {
      const int64_t dim = group_.dim();
      std::vector<float> rows(std::min(n, kBlockKeys) * dim);
      for (int64_t begin = 0; begin < n; begin += kBlockKeys) {
        const int64_t count = std::min(kBlockKeys, n - begin);
        TF_RETURN_IF_ERROR(read(begin, count, rows.data()));
        std::transform(rows.begin(), rows.begin() + count * dim, out + begin * dim,
                       [](float value) { return static_cast<T>(value); });
      }
      return tensorflow::OkStatus();
    }
  }

  TableGroup group_;
  bool training_;
};

#define REGISTER_PULL(T) \
  REGISTER_KERNEL_BUILDER(Name("PsClusterPull").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), Pull<T>)
REGISTER_PULL(float);
REGISTER_PULL(Eigen::half);
REGISTER_PULL(Eigen::bfloat16);
#undef REGISTER_PULL

}  // namespace
}  // namespace ps_cluster
