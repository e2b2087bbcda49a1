// Forward half of a step on a PS: the embeddings of the keys a worker asks for.
#include <cstring>

#include "ops/cc/kernels/request.h"
#include "ops/cc/kernels/table_group.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class Pull : public OpKernel {
 public:
  explicit Pull(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, group_.Init(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("training", &training_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<TablePtr> tables;
    OP_REQUIRES_OK(ctx, group_.Tables(ctx, &tables));
    Request request;
    OP_REQUIRES_OK(ctx, ParseRequest(ctx->input(group_.num_tables()), group_.num_tables(), &request));
    const int dim = group_.optimizer().dim;
    const int row_floats = group_.optimizer().row_floats();
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({request.num_keys(), dim}), &output));
    float* out = output->flat<float>().data();
    for (int t = 0; t < group_.num_tables(); ++t) {
      const int64_t* keys = request.keys + request.first_key[t];
      const int64_t n = request.first_key[t + 1] - request.first_key[t];
      if (n == 0) continue;
      Tensor key_tensor, rows;
      OP_REQUIRES_OK(ctx, group_.Find(ctx, tables[t].get(), keys, n, &key_tensor, &rows));
      const float* row = rows.flat<float>().data();
      for (int64_t i = 0; i < n; ++i, row += row_floats, out += dim) {
        if (training_ && TableGroup::LastStep(row, row_floats) == 0) {
          group_.FillEmbedding(t, keys[i], out);
        } else {
          std::memcpy(out, row, dim * sizeof(float));
        }
      }
    }
  }

 private:
  TableGroup group_;
  bool training_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterPull").Device(tensorflow::DEVICE_CPU), Pull);

}  // namespace
}  // namespace ps_cluster
