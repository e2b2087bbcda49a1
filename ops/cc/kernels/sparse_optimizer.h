// Sparse optimisers as pure functions over one row and its gradient.
#ifndef PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_
#define PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/platform/errors.h"

namespace ps_cluster {

enum class OptimizerKind { kSgd, kAdagrad, kAdam };

// A row is [embedding | slots | last step]: `slots` vectors as wide as the
// embedding, then the step of the last update as the bits of an int32. A last
// step of 0 says that the row has never been written.
struct SparseOptimizer {
  OptimizerKind kind = OptimizerKind::kSgd;
  int dim = 0;
  float initial_accumulator = 0.0f;  // Adagrad
  float beta_1 = 0.0f, beta_2 = 0.0f;  // Adam
  float epsilon = 0.0f;

  int slots() const {
    switch (kind) {
      case OptimizerKind::kSgd:
        return 0;
      case OptimizerKind::kAdagrad:
        return 1;
      case OptimizerKind::kAdam:
        return 2;
    }
    return 0;
  }
  int row_floats() const { return dim * (1 + slots()) + 1; }

  void FillSlots(float* row) const {
    const float value =
        kind == OptimizerKind::kAdagrad ? initial_accumulator : 0.0f;
    for (int j = dim; j < row_floats() - 1; ++j) row[j] = value;
  }

  // The factor of a step that is the same for all rows: the learning rate, for
  // Adam with its bias correction (Kingma & Ba 2015, section 2, last form).
  float StepRate(float learning_rate, int64_t step) const {
    if (kind != OptimizerKind::kAdam) return learning_rate;
    const double t = static_cast<double>(step);
    return static_cast<float>(learning_rate *
                              std::sqrt(1.0 - std::pow(double{beta_2}, t)) /
                              (1.0 - std::pow(double{beta_1}, t)));
  }

  void Update(const float* __restrict gradient, float step_rate,
              float* __restrict row) const {
    switch (kind) {
      case OptimizerKind::kSgd:
        for (int j = 0; j < dim; ++j) row[j] -= step_rate * gradient[j];
        return;
      case OptimizerKind::kAdagrad: {
        float* __restrict sum = row + dim;
        for (int j = 0; j < dim; ++j) {
          sum[j] += gradient[j] * gradient[j];
          row[j] -= step_rate * gradient[j] / std::sqrt(sum[j] + epsilon);
        }
        return;
      }
      case OptimizerKind::kAdam: {
        float* __restrict m = row + dim;
        float* __restrict v = row + 2 * dim;
        for (int j = 0; j < dim; ++j) {
          m[j] += (gradient[j] - m[j]) * (1.0f - beta_1);
          v[j] += (gradient[j] * gradient[j] - v[j]) * (1.0f - beta_2);
          row[j] -= step_rate * m[j] / (std::sqrt(v[j]) + epsilon);
        }
        return;
      }
    }
  }
};

// `settings` per name: sgd []; adagrad [initial accumulator, epsilon];
// adam [beta 1, beta 2, epsilon].
inline tensorflow::Status MakeSparseOptimizer(const std::string& name,
                                              const std::vector<float>& settings,
                                              int dim, SparseOptimizer* out) {
  using tensorflow::errors::InvalidArgument;
  const auto expect = [&](size_t n) {
    return settings.size() == n
               ? tensorflow::OkStatus()
               : InvalidArgument("optimizer ", name, ": expected ", n,
                                 " settings, found ", settings.size());
  };
  if (dim < 1) return InvalidArgument("dim: expected at least 1, found ", dim);
  out->dim = dim;
  if (name == "sgd") {
    out->kind = OptimizerKind::kSgd;
    return expect(0);
  }
  if (name == "adagrad") {
    TF_RETURN_IF_ERROR(expect(2));
    out->kind = OptimizerKind::kAdagrad;
    out->initial_accumulator = settings[0];
    out->epsilon = settings[1];
    return tensorflow::OkStatus();
  }
  if (name == "adam") {
    TF_RETURN_IF_ERROR(expect(3));
    out->kind = OptimizerKind::kAdam;
    out->beta_1 = settings[0];
    out->beta_2 = settings[1];
    out->epsilon = settings[2];
    return tensorflow::OkStatus();
  }
  return InvalidArgument("optimizer: expected sgd, adagrad or adam, found '",
                         name, "'");
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_SPARSE_OPTIMIZER_H_
