// Sparse optimisers as pure functions over one row and its gradient.
#include "ops/cc/table/row_optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

// The loops below once more for wider vectors, chosen when the library is loaded. Sums are in a fixed order and the
// build contracts no multiplication with an addition (-ffp-contract=off), so all versions give the same bits. Not
// under sanitizers, whose runtime is not there yet when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define PS_CLUSTER_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PS_CLUSTER_VECTORISED
#endif

namespace ps_cluster {
namespace {

// Loops over the positions of one row: `w` its embedding, `scale * g[j]` the gradient.

PS_CLUSTER_VECTORISED
void Sgd(int dim, float rate, float scale, const float* __restrict g, float* __restrict w) {
  for (int j = 0; j < dim; ++j) w[j] -= rate * (scale * g[j]);
}

PS_CLUSTER_VECTORISED
void Momentum(int dim, float rate, float scale, float momentum, const float* __restrict g, float* __restrict w,
              float* __restrict m) {
  for (int j = 0; j < dim; ++j) {
    m[j] = momentum * m[j] - rate * (scale * g[j]);
    w[j] += m[j];
  }
}

PS_CLUSTER_VECTORISED
void Nesterov(int dim, float rate, float scale, float momentum, const float* __restrict g, float* __restrict w,
              float* __restrict m) {
  for (int j = 0; j < dim; ++j) {
    const float down = rate * (scale * g[j]);
    m[j] = momentum * m[j] - down;
    w[j] += momentum * m[j] - down;
  }
}

PS_CLUSTER_VECTORISED
void Decay(int dim, float factor, float least, float* __restrict sum) {
  for (int j = 0; j < dim; ++j) {
    const float decayed = sum[j] * factor;
    sum[j] = decayed > least ? decayed : least;
  }
}

PS_CLUSTER_VECTORISED
void Adagrad(int dim, float rate, float scale, float epsilon, const float* __restrict g, float* __restrict w,
             float* __restrict sum) {
  for (int j = 0; j < dim; ++j) {
    const float gradient = scale * g[j];
    sum[j] += gradient * gradient;
    w[j] -= rate * gradient / std::sqrt(sum[j] + epsilon);
  }
}

// `shrink`: share of the embedding that weight decay takes before the step.
PS_CLUSTER_VECTORISED
void Adam(int dim, float rate, float scale, float rest_1, float rest_2, float epsilon, float shrink,
          const float* __restrict g, float* __restrict w, float* __restrict m, float* __restrict v) {
  for (int j = 0; j < dim; ++j) {
    const float gradient = scale * g[j];
    m[j] += (gradient - m[j]) * rest_1;
    v[j] += (gradient * gradient - v[j]) * rest_2;
    w[j] = (w[j] - shrink * w[j]) - rate * m[j] / (std::sqrt(v[j]) + epsilon);
  }
}

PS_CLUSTER_VECTORISED
void RmsProp(int dim, float rate, float scale, float rho, float epsilon, const float* __restrict g,
             float* __restrict w, float* __restrict v) {
  for (int j = 0; j < dim; ++j) {
    const float gradient = scale * g[j];
    v[j] = rho * v[j] + (1.0f - rho) * (gradient * gradient);
    w[j] -= rate * gradient / std::sqrt(v[j] + epsilon);
  }
}

PS_CLUSTER_VECTORISED
void RmsPropMomentum(int dim, float rate, float scale, float rho, float epsilon, float momentum,
                     const float* __restrict g, float* __restrict w, float* __restrict v, float* __restrict m) {
  for (int j = 0; j < dim; ++j) {
    const float gradient = scale * g[j];
    v[j] = rho * v[j] + (1.0f - rho) * (gradient * gradient);
    m[j] = momentum * m[j] + rate * gradient / std::sqrt(v[j] + epsilon);
    w[j] -= m[j];
  }
}

// McMahan et al. 2013 with a learning rate power of -1/2. The difference of the two roots is written so that nothing
// cancels.
PS_CLUSTER_VECTORISED
void Ftrl(int dim, float rate, float scale, float l1, float l2, float l2_shrinkage, const float* __restrict g,
          float* __restrict w, float* __restrict sum, float* __restrict linear) {
  for (int j = 0; j < dim; ++j) {
    const float gradient = scale * g[j];
    const float square = gradient * gradient;
    const float before = std::sqrt(sum[j]);
    sum[j] += square;
    const float after = std::sqrt(sum[j]);
    const float both = before + after;
    const float more = both > 0.0f ? square / both : 0.0f;
    const float sloped = gradient + 2.0f * l2_shrinkage * w[j];
    const float z = linear[j] + (sloped - more / rate * w[j]);
    linear[j] = z;
    const float below = z < l1 ? z : l1;
    const float clipped = below > -l1 ? below : -l1;
    const float quadratic = after / rate + 2.0f * l2;
    w[j] = quadratic > 0.0f ? (clipped - z) / quadratic : 0.0f;
  }
}

void FtrlWithPower(int dim, float rate, float scale, float power, float l1, float l2, float l2_shrinkage,
                   const float* g, float* w, float* sum, float* linear) {
  for (int j = 0; j < dim; ++j) {
    const double gradient = scale * g[j];
    const double before = std::pow(double{sum[j]}, double{power});
    const double after = std::pow(double{sum[j]} + gradient * gradient, double{power});
    sum[j] += static_cast<float>(gradient * gradient);
    const double z = linear[j] + gradient + 2.0 * l2_shrinkage * w[j] - (after - before) / rate * w[j];
    linear[j] = static_cast<float>(z);
    const double quadratic = after / rate + 2.0 * l2;
    const double clipped = std::clamp(z, -double{l1}, double{l1});
    w[j] = quadratic > 0.0 ? static_cast<float>((clipped - z) / quadratic) : 0.0f;
  }
}

// Of `scale * g`, in sixteen sums, which are added in a fixed order.
PS_CLUSTER_VECTORISED
float SquaredNorm(int dim, float scale, const float* __restrict g) {
  constexpr int kSums = 16;
  float sums[kSums] = {};
  int j = 0;
  for (; j + kSums <= dim; j += kSums) {
    for (int k = 0; k < kSums; ++k) sums[k] += (scale * g[j + k]) * (scale * g[j + k]);
  }
  for (int k = 0; j < dim; ++j, ++k) sums[k] += (scale * g[j]) * (scale * g[j]);
  float total = 0.0f;
  for (int k = 0; k < kSums; ++k) total += sums[k];
  return total;
}

// One optimiser's settings, taken one after the other.
class Settings {
 public:
  Settings(const std::string& name, const std::vector<float>& values) : name_(name), values_(values) {}

  void ExpectNumber(size_t expected) const {
    if (values_.size() == expected) return;
    std::ostringstream text;
    text << "optimizer " << name_ << ": expected " << expected << " settings, found " << values_.size();
    throw std::invalid_argument(text.str());
  }

  float Take(const char* setting, float least, float most) {
    const float value = values_[next_++];
    if (!(value >= least && value <= most)) {
      std::ostringstream text;
      text << "optimizer " << name_ << ": " << setting << ": expected a number ";
      if (most == kBelowOne) {
        text << "of at least " << least << " and below 1";
      } else if (most < kAny) {
        text << "from " << least << " to " << most;
      } else {
        text << "of at least " << least;
      }
      text << ", found " << value;
      throw std::invalid_argument(text.str());
    }
    return value;
  }

  static constexpr float kAny = std::numeric_limits<float>::max();
  static constexpr float kBelowOne = 1.0f - 0x1.0p-24f;

 private:
  const std::string& name_;
  const std::vector<float>& values_;
  size_t next_ = 0;
};

}  // namespace

RowOptimizer RowOptimizer::Make(const std::string& name, const std::vector<float>& settings) {
  constexpr float kAny = Settings::kAny;
  constexpr float kBelowOne = Settings::kBelowOne;
  constexpr float kLargestCount = 0x1.0p24f;  // integers up to here are exact in float32
  RowOptimizer made;
  Settings given(name, settings);
  if (name == "sgd") {
    made.kind_ = OptimizerKind::kSgd;
    given.ExpectNumber(1);
  } else if (name == "momentum") {
    made.kind_ = OptimizerKind::kMomentum;
    made.slots_ = 1;
    given.ExpectNumber(3);
    made.momentum_ = given.Take("momentum", 0.0f, 1.0f);
    made.nesterov_ = given.Take("nesterov", 0.0f, 1.0f) != 0.0f;
  } else if (name == "adagrad") {
    made.kind_ = OptimizerKind::kAdagrad;
    made.slots_ = 1;
    given.ExpectNumber(5);
    made.initial_accumulator_ = given.Take("initial_accumulator", 0.0f, kAny);
    made.epsilon_ = given.Take("epsilon", 0.0f, kAny);
    made.decay_ = given.Take("decay", 0.0f, 1.0f);
    made.decay_steps_ = static_cast<int64_t>(given.Take("decay_steps", 1.0f, kLargestCount));
  } else if (name == "adam" || name == "adamw") {
    const bool decays = name == "adamw";
    made.kind_ = decays ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
    made.slots_ = 2;
    given.ExpectNumber(decays ? 5 : 4);
    made.beta_1_ = given.Take("beta_1", 0.0f, kBelowOne);
    made.beta_2_ = given.Take("beta_2", 0.0f, kBelowOne);
    made.epsilon_ = given.Take("epsilon", 0.0f, kAny);
    if (decays) made.weight_decay_ = given.Take("weight_decay", 0.0f, kAny);
  } else if (name == "rmsprop") {
    made.kind_ = OptimizerKind::kRmsProp;
    given.ExpectNumber(4);
    made.beta_2_ = given.Take("rho", 0.0f, kBelowOne);
    made.momentum_ = given.Take("momentum", 0.0f, 1.0f);
    made.epsilon_ = given.Take("epsilon", 0.0f, kAny);
    made.slots_ = made.momentum_ > 0.0f ? 2 : 1;
  } else if (name == "ftrl") {
    made.kind_ = OptimizerKind::kFtrl;
    made.slots_ = 2;
    given.ExpectNumber(7);
    made.power_ = -given.Take("learning_rate_power", -kAny, 0.0f);
    made.initial_accumulator_ = given.Take("initial_accumulator", 0.0f, kAny);
    made.l1_ = given.Take("l1", 0.0f, kAny);
    made.l2_ = given.Take("l2", 0.0f, kAny);
    made.l2_shrinkage_ = given.Take("l2_shrinkage", 0.0f, kAny);
    made.beta_ = given.Take("beta", 0.0f, kAny);
  } else {
    throw std::invalid_argument(
        "optimizer: expected sgd, momentum, adagrad, adam, adamw, rmsprop or ftrl, found '" + name + "'");
  }
  made.clip_norm_ = given.Take("clip_norm", 0.0f, kAny);
  return made;
}

void RowOptimizer::FillSlots(int dim, float* slots) const {
  std::fill(slots, slots + static_cast<int64_t>(slots_) * dim, 0.0f);
  if (kind_ == OptimizerKind::kAdagrad || kind_ == OptimizerKind::kFtrl) {
    std::fill(slots, slots + dim, initial_accumulator_);
  }
}

StepConstants RowOptimizer::At(int64_t step, float learning_rate, float gradient_scale) const {
  StepConstants constants{step, learning_rate, learning_rate, gradient_scale};
  if (kind_ == OptimizerKind::kAdam || kind_ == OptimizerKind::kAdamW) {
    // Kingma & Ba 2015, section 2, last form. In float64: 1 - beta_2^t cancels.
    const double t = static_cast<double>(step);
    constants.rate = static_cast<float>(learning_rate * std::sqrt(1.0 - std::pow(double{beta_2_}, t)) /
                                        (1.0 - std::pow(double{beta_1_}, t)));
  }
  return constants;
}

void RowOptimizer::Update(const StepConstants& constants, const float* gradient, int dim, uint32_t last_step,
                          float* embedding, float* slots) const {
  const float rate = constants.rate;
  float scale = constants.gradient_scale;
  if (clip_norm_ > 0.0f) {
    const float norm = std::sqrt(SquaredNorm(dim, scale, gradient));
    if (norm > clip_norm_) scale *= clip_norm_ / norm;
  }
  float* second = slots + dim;
  switch (kind_) {
    case OptimizerKind::kNone:
      return;
    case OptimizerKind::kSgd:
      return Sgd(dim, rate, scale, gradient, embedding);
    case OptimizerKind::kMomentum:
      return (nesterov_ ? Nesterov : Momentum)(dim, rate, scale, momentum_, gradient, embedding, slots);
    case OptimizerKind::kAdagrad: {
      const int64_t times = last_step == 0 ? 0 : constants.step / decay_steps_ - last_step / decay_steps_;
      if (decay_ < 1.0 && times > 0) {
        const double factor = std::pow(decay_, static_cast<double>(times));
        Decay(dim, static_cast<float>(factor), initial_accumulator_, slots);
      }
      return Adagrad(dim, rate, scale, epsilon_, gradient, embedding, slots);
    }
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return Adam(dim, rate, scale, 1.0f - beta_1_, 1.0f - beta_2_, epsilon_, weight_decay_ * constants.learning_rate,
                  gradient, embedding, slots, second);
    case OptimizerKind::kRmsProp:
      if (slots_ == 1) return RmsProp(dim, rate, scale, beta_2_, epsilon_, gradient, embedding, slots);
      return RmsPropMomentum(dim, rate, scale, beta_2_, epsilon_, momentum_, gradient, embedding, slots, second);
    case OptimizerKind::kFtrl: {
      if (!(rate > 0.0f)) return;  // the formula divides by the rate; its limit at 0 is no step
      const float l2 = l2_ + beta_ / (2.0f * rate);
      if (power_ == 0.5f) {
        return Ftrl(dim, rate, scale, l1_, l2, l2_shrinkage_, gradient, embedding, slots, second);
      }
      return FtrlWithPower(dim, rate, scale, power_, l1_, l2, l2_shrinkage_, gradient, embedding, slots, second);
    }
  }
}

}  // namespace ps_cluster
