// A sparse optimiser over rows of the cuckoo table.
#ifndef PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_
#define PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/cc/table/row_optimizer.h"
#include "tensorflow/core/platform/errors.h"

namespace ps_cluster {

// A row is [embedding | slots | last step]: `slots` vectors as wide as the
// embedding, then the step of the last update as the bits of an int32. A last
// step of 0 says that the row has never been written.
struct SparseOptimizer {
  RowOptimizer rule;
  int dim = 0;

  int row_floats() const { return dim * (1 + rule.slots()) + 1; }
  void FillSlots(float* row) const { rule.FillSlots(dim, row + dim); }
  void Update(const StepConstants& constants, const float* gradient, float* row) const {
    uint32_t last_step;
    std::memcpy(&last_step, row + row_floats() - 1, sizeof(last_step));
    rule.Update(constants, gradient, dim, last_step, row, row + dim);
  }
};

// `settings`: as `RowOptimizer::Make` takes them.
inline tensorflow::Status MakeSparseOptimizer(const std::string& name, const std::vector<float>& settings, int dim,
                                              SparseOptimizer* out) {
  using tensorflow::errors::InvalidArgument;
  if (dim < 1) return InvalidArgument("dim: expected at least 1, found ", dim);
  out->dim = dim;
  try {
    out->rule = RowOptimizer::Make(name, settings);
  } catch (const std::invalid_argument& error) {
    return InvalidArgument(error.what());
  }
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_
