// Rows of a TFRA table, which knows vectors only: embedding, slots, frequency and last step packed into one.
#ifndef PS_CLUSTER_OPS_KERNELS_PACKED_ROWS_H_
#define PS_CLUSTER_OPS_KERNELS_PACKED_ROWS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cc/table/initial_value.h"
#include "ops/cc/table/row_optimizer.h"
#include "ops/cc/table/table.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

// A row is float32 [embedding | slots | frequency | last step]; the last two are the bits of uint32. A last step of 0
// says that the row has never been written.
class PackedRows {
 public:
  // Reads the attributes of a group of `num_tables` tables.
  tensorflow::Status Init(tensorflow::OpKernelConstruction* ctx, int num_tables, int dim);

  int row_floats() const { return dim_ * (1 + optimizer_.slots()) + 2; }

  // Embeddings of `n` keys of the group's table `t` into `out`, float32 [n, dim]; a key without a row gives its
  // initial value when `training`, zeros otherwise.
  tensorflow::Status Pull(tensorflow::OpKernelContext* ctx, int t, tensorflow::lookup::LookupInterface* table,
                          const int64_t* keys, int64_t n, bool training, float* out) const;

  // Finds or initialises, optimises by `gradient_scale` times the gradients and writes back; not exact when two do it at
  // a time. Keys are each there once.
  tensorflow::Status Push(tensorflow::OpKernelContext* ctx, int t, tensorflow::lookup::LookupInterface* table,
                          const int64_t* keys, const uint32_t* counts, const float* gradients, int64_t n, Now now,
                          float learning_rate, float gradient_scale) const;

 private:
  uint32_t Word(const float* row, int from_end) const {
    uint32_t word;
    std::memcpy(&word, row + row_floats() - from_end, sizeof(word));
    return word;
  }
  void SetWord(uint32_t word, int from_end, float* row) const {
    std::memcpy(row + row_floats() - from_end, &word, sizeof(word));
  }
  uint32_t LastStep(const float* row) const { return Word(row, 1); }

  // Reads `n` rows into `rows`, float32 [n, row_floats]; zeros for those that are not there. `key_tensor` holds the
  // keys.
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, tensorflow::lookup::LookupInterface* table,
                          const int64_t* keys, int64_t n, tensorflow::Tensor* key_tensor,
                          tensorflow::Tensor* rows) const;

  int dim_ = 0;
  RowOptimizer optimizer_;
  std::vector<Initializer> initializers_;
  std::vector<int64_t> salts_;
  int64_t seed_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_PACKED_ROWS_H_
