// Tables that share a row layout, as one PS sees them: how their rows are read and written.
#ifndef PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_
#define PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_

#include <cstdint>
#include <vector>

#include "ops/cc/table/initial_value.h"
#include "ops/cc/kernels/sparse_optimizer.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ps_cluster {

using TablePtr = tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>;

// What pull and push have in common: their attributes.
class TableGroup {
 public:
  tensorflow::Status Init(tensorflow::OpKernelConstruction* ctx);

  int num_tables() const { return static_cast<int>(salts_.size()); }
  const SparseOptimizer& optimizer() const { return optimizer_; }

  // The tables behind the first inputs of `ctx`, checked to have this layout.
  tensorflow::Status Tables(tensorflow::OpKernelContext* ctx, std::vector<TablePtr>* tables) const;

  // Reads `n` rows into `rows` (float32 [n, row_floats]); a row never written
  // has a last step of 0 and is otherwise zero. `key_tensor` holds the keys.
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, tensorflow::lookup::LookupInterface* table,
                          const int64_t* keys, int64_t n, tensorflow::Tensor* key_tensor,
                          tensorflow::Tensor* rows) const;

  // The embedding of a key that has no row yet.
  void FillEmbedding(int table, int64_t key, float* row) const {
    FillInitialValue(initializers_[table], seed_, salts_[table], key, optimizer_.dim, row);
  }

  static int32_t LastStep(const float* row, int row_floats) {
    int32_t step;
    std::memcpy(&step, row + row_floats - 1, sizeof(step));
    return step;
  }
  static void SetLastStep(int64_t step, int row_floats, float* row) {
    const int32_t value = static_cast<int32_t>(step);
    std::memcpy(row + row_floats - 1, &value, sizeof(value));
  }

 private:
  SparseOptimizer optimizer_;
  std::vector<Initializer> initializers_;
  std::vector<int64_t> salts_;
  int64_t seed_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_
