// Lists of ids looked up in a frozen table, padded for what attends to their elements.
#include <algorithm>
#include <string>

#include "ops/rankmixer/kernels/table_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace ps_cluster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int64_t kCyclesOfAnId = 60;

template <typename T, typename Index>
class LookupSequence : public OpKernel {
 public:
  explicit LookupSequence(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_length", &max_length_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("name_of_list", &name_));
  }

  void Compute(OpKernelContext* ctx) override {
    IdLists lists;
    FrozenTable<T, Index> table;
    OP_REQUIRES_OK(ctx, ListsOf(name_, ctx->input(0), ctx->input(1), max_length_, &lists));
    OP_REQUIRES_OK(ctx, TableOf(name_, ctx->input(2), ctx->input(3), ctx->input(4), &table));
    OpInputList scales;
    OP_REQUIRES_OK(ctx, ctx->input_list("scales", &scales));
    OP_REQUIRES_OK(ctx, AddScales(name_, scales, 0, 1, &table));
    const int64_t batch = ctx->input(0).dim_size(0), dim = table.dim;
    int64_t longest = 0;
    for (int64_t row = 0; row < batch; ++row) {
      int64_t count;
      lists.Of(row, &count);
      longest = std::max(longest, count);
    }
    Tensor *elements, *mask;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({batch, longest, dim}), &elements));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({batch, longest}), &mask));
    float* values = elements->flat<float>().data();
    bool* real = mask->flat<bool>().data();
    const auto rows = [&](int64_t from, int64_t to) {
      const T* found[kBurst];
      for (int64_t row = from; row < to; ++row) {
        int64_t count;
        const int64_t* ids = lists.Of(row, &count);
        float* out = values + row * longest * dim;
        for (int64_t at = 0; at < count; at += kBurst) {
          const int n = static_cast<int>(std::min<int64_t>(kBurst, count - at));
          table.Find(ids + at, n, found);
          for (int i = 0; i < n; ++i, out += dim) table.CopyTo(found[i], out);
        }
        std::fill(out, values + (row + 1) * longest * dim, 0.0f);
        std::fill_n(real + row * longest, count, true);
        std::fill_n(real + row * longest + count, longest - count, false);
      }
    };
    const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(threads->num_threads, threads->workers, batch, longest * (kCyclesOfAnId + dim / 2), rows);
  }

 private:
  int64_t max_length_;
  std::string name_;
};

#define REGISTER_SEQUENCE(T, Index)                                        \
  REGISTER_KERNEL_BUILDER(Name("PsClusterLookupSequence")                  \
                              .Device(tensorflow::DEVICE_CPU)              \
                              .TypeConstraint<T>("T")                      \
                              .TypeConstraint<Index>("Index"),             \
                          LookupSequence<T, Index>)
REGISTER_SEQUENCE(float, int32_t);
REGISTER_SEQUENCE(float, int64_t);
REGISTER_SEQUENCE(Eigen::half, int32_t);
REGISTER_SEQUENCE(Eigen::half, int64_t);
REGISTER_SEQUENCE(int8_t, int32_t);
REGISTER_SEQUENCE(int8_t, int64_t);
#undef REGISTER_SEQUENCE

}  // namespace
}  // namespace ps_cluster
