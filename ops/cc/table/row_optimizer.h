// Sparse optimisers as pure functions over one row and its gradient.
//
// Where every row occurs in every step, they equal the tf-keras optimisers of the same names. They are lazy: a row
// that does not occur in a step keeps its embedding and its slots, whatever momentum, moments or weight decay would
// have done to it.
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
  float gradient_scale = 1.0f;
};

// A row is an embedding `[dim]` and `slots()` vectors `[dim]` behind one another, all float32.
class RowOptimizer {
 public:
  // `settings` in this order; `clip_norm`: longest L2 norm of one row's gradient, which is scaled down to it; 0: off.
  //   sgd       clip_norm
  //   momentum  momentum, nesterov (0 or 1), clip_norm
  //   adagrad   initial_accumulator, epsilon, decay, decay_steps, clip_norm
  //   adam      beta_1, beta_2, epsilon, clip_norm
  //   adamw     beta_1, beta_2, epsilon, weight_decay, clip_norm
  //   rmsprop   rho, momentum, epsilon, clip_norm
  //   ftrl      learning_rate_power, initial_accumulator, l1, l2, l2_shrinkage, beta, clip_norm
  // Throws std::invalid_argument with one line: an unknown name, too few or too many settings, one out of its range.
  static RowOptimizer Make(const std::string& name, const std::vector<float>& settings);

  RowOptimizer() = default;  // kNone

  OptimizerKind kind() const { return kind_; }
  // Slots by kind: momentum [momentum]; adagrad [sum of squares]; adam, adamw [first moment, second moment];
  // rmsprop [mean square], with momentum [mean square, momentum]; ftrl [sum of squares, linear].
  int slots() const { return slots_; }
  // Writes the slots of a row that was never updated, `slots()` vectors `[dim]`.
  void FillSlots(int dim, float* slots) const;

  // `step` is counted from 1. `gradient_scale`: what all gradients of the step are multiplied by.
  StepConstants At(int64_t step, float learning_rate, float gradient_scale = 1.0f) const;

  // `last_step`: step of the row's update before; 0: there was none. `gradient`: without the step's scale. The three do
  // not overlap. The same bits come out whatever the processor.
  void Update(const StepConstants& constants, const float* gradient, int dim, uint32_t last_step, float* embedding,
              float* slots) const;

 private:
  OptimizerKind kind_ = OptimizerKind::kNone;
  int slots_ = 0;
  float clip_norm_ = 0.0f;
  float epsilon_ = 0.0f;              // adagrad, adam, adamw, rmsprop
  float momentum_ = 0.0f;             // momentum, rmsprop
  bool nesterov_ = false;             // momentum
  float initial_accumulator_ = 0.0f;  // adagrad, ftrl
  // adagrad: each time the step passes a multiple of `decay_steps_`, the sum of squares is multiplied by `decay_`, but
  // never falls below where it started.
  double decay_ = 1.0;
  int64_t decay_steps_ = 1;
  float beta_1_ = 0.0f;               // adam, adamw
  float beta_2_ = 0.0f;               // adam, adamw; rmsprop's rho
  float weight_decay_ = 0.0f;         // adamw
  float power_ = 0.0f;                // ftrl: minus the learning rate's power
  float l1_ = 0.0f, l2_ = 0.0f, l2_shrinkage_ = 0.0f, beta_ = 0.0f;  // ftrl
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_ROW_OPTIMIZER_H_
