// Sparse optimisers as pure functions over one row and its gradient.
#ifndef PS_CLUSTER_OPS_TABLE_ROW_OPTIMIZER_H_
#define PS_CLUSTER_OPS_TABLE_ROW_OPTIMIZER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ps_cluster {

enum class OptimizerKind { kNone, kSgd, kMomentum, kAdagrad, kAdam, kAdamW, kRmsProp, kFtrl };

// What is the same for all rows of a step.
struct StepConstants {
  int64_t step = 0;
  float learning_rate = 0.0f;
  float rate = 0.0f;  // with bias correction where the optimiser has one
};

// A row is an embedding `[dim]` and `slots()` vectors `[dim]` behind one another, all float32.
class RowOptimizer {
 public:
  // `settings` by name: see the implementation. Throws std::invalid_argument with one line.
  static RowOptimizer Make(const std::string& name, const std::vector<float>& settings);

  RowOptimizer() = default;  // kNone
  OptimizerKind kind() const { return kind_; }
  int slots() const;
  void FillSlots(int dim, float* slots) const;
  StepConstants At(int64_t step, float learning_rate) const;
  // `last_step`: step of the row's update before; 0: there was none. `gradient` is not changed.
  void Update(const StepConstants& constants, const float* gradient, int dim, uint32_t last_step, float* embedding,
              float* slots) const;

 private:
  OptimizerKind kind_ = OptimizerKind::kNone;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_ROW_OPTIMIZER_H_
