#include "ops/rankmixer/experts/backward_expert.h"

#include <algorithm>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/scratch.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

// Rows whose gradients of weights are summed at a time. A larger chunk reads and writes those less often, a smaller
// one stays in the cache.
int64_t ChunkRows(const ExpertsSpec& spec, int64_t rows) {
  const int64_t most = spec.dim * spec.inner <= 128 * 1024 ? 256 : 512;
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return std::max<int64_t>(1, (rows + chunks - 1) / chunks);
}

// Sum of the products, in an order that depends on n only; 16 sums at a time, which the compiler makes vectors of.
float Dot(const float* one, const float* other, int64_t n) {
  constexpr int64_t kSums = 16;
  float sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) sums[j] += one[i + j] * other[i + j];
  }
  for (; i < n; ++i) sums[i % kSums] += one[i] * other[i];
  for (int64_t width = kSums / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

class ExpertPass {
 public:
  ExpertPass(const Expert& of, const Pairs& pairs, const ExpertsKept& kept, const ExpertsGradients& gradients,
             float* ds)
      : of_(of),
        spec_(of.spec),
        kernels_(of.kernels),
        pairs_(pairs),
        kept_(kept),
        gradients_(gradients),
        ds_(ds),
        swiglu_(of.spec.activation == Activation::kSwiglu),
        dim_stride_(TileStride(spec_.dim)),
        inner_stride_(TileStride(spec_.inner)),
        hidden_stride_(TileStride(spec_.hidden)) {}

  void Run() {
    const Pairs::Range range = pairs_.OfExpert(of_.token, of_.expert);
    const int64_t rows = ChunkRows(spec_, range.size());
    Carve(rows, Scratch::OfThread(Scratch::kChunk).Get(Carve(rows, nullptr)));
    std::fill_n(ones_, std::max(spec_.dim, spec_.hidden), 1.0f);
    std::fill_n(db1_, spec_.inner, 0.0f);
    std::fill_n(db2_, spec_.dim, 0.0f);
    std::fill_n(dw1_, spec_.dim * spec_.inner, 0.0f);
    std::fill_n(dw2_, spec_.hidden * spec_.dim, 0.0f);
    for (int64_t pair = range.first; pair < range.last; pair += rows) {
      Chunk(pair, std::min(rows, range.last - pair), ds_ + (pair - range.first) * spec_.dim);
    }
    Narrow(db1_, spec_.inner, gradients_.b1);
    Narrow(db2_, spec_.dim, gradients_.b2);
    if (spec_.type == Number::kFloat32) return;
    Narrow(dw1_, spec_.dim * spec_.inner, gradients_.w1);
    Narrow(dw2_, spec_.hidden * spec_.dim, gradients_.w2);
  }

 private:
  int64_t Carve(int64_t rows, void* memory) {
    Carver carver(memory);
    s_ = carver.Array<float>(rows * dim_stride_);
    dy_ = carver.Array<float>(rows * dim_stride_);
    hidden_ = carver.Array<float>(rows * hidden_stride_);
    dhidden_ = carver.Array<float>(rows * hidden_stride_);
    inner_ = carver.Array<float>(rows * inner_stride_);
    ones_ = carver.Array<float>(std::max(spec_.dim, spec_.hidden));
    db1_ = carver.Array<float>(spec_.inner);
    db2_ = carver.Array<float>(spec_.dim);
    if (kept_.inner == nullptr) again_ = carver.Array<char>(rows * spec_.inner * SizeOf(spec_.type));
    const int64_t weights = spec_.dim * spec_.inner, back = spec_.hidden * spec_.dim;
    if (spec_.type == Number::kFloat32) {
      dw1_ = static_cast<float*>(gradients_.w1) + of_.index() * weights;
      dw2_ = static_cast<float*>(gradients_.w2) + of_.index() * back;
    } else {
      dw1_ = carver.Array<float>(weights);
      dw2_ = carver.Array<float>(back);
    }
    return carver.bytes();
  }

  void Narrow(const float* from, int64_t count, void* to) const {
    kernels_.narrow(from, count, At(to, spec_.type, of_.index() * count), spec_.type, false);
  }

  void Chunk(int64_t pair, int64_t count, float* ds) {
    const int64_t* const rows = pairs_.rows(pair);
    of_.Gather(of_.inputs.tokens, rows, count, s_, dim_stride_);
    of_.Gather(kept_.dy, rows, count, dy_, dim_stride_);
    const void* kept = again_;
    if (kept_.inner == nullptr) {
      of_.HiddenUnits(rows, count, s_, dim_stride_, inner_, inner_stride_, again_);
    } else {
      kept = At(kept_.inner, spec_.type, pair * spec_.inner);
    }
    Compute(count, spec_.hidden, spec_.dim, {dy_, dim_stride_}, of_.w2(true), dhidden_, hidden_stride_, false);
    for (int64_t i = 0; i < count; ++i) Row(i, rows[i], At(kept, spec_.type, i * spec_.inner));
    Compute(spec_.hidden, spec_.dim, count, {hidden_, hidden_stride_, Number::kFloat32, true}, {dy_, dim_stride_},
            dw2_, spec_.dim, true);
    kernels_.add_column_sums(dy_, dim_stride_, count, spec_.dim, db2_);
    Compute(spec_.dim, spec_.inner, count, {s_, dim_stride_, Number::kFloat32, true}, {inner_, inner_stride_}, dw1_,
            spec_.inner, true);
    kernels_.add_column_sums(inner_, inner_stride_, count, spec_.inner, db1_);
    Compute(count, spec_.dim, spec_.inner, {inner_, inner_stride_}, of_.w1(true), ds, spec_.dim, false);
  }

  void Compute(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c, int64_t c_stride,
               bool accumulate) const {
    Product product = {m, n, k, a, b, c, c_stride};
    product.accumulate = accumulate;
    product.factors = of_.factors();
    Multiply(kernels_, product);
  }

  // The hidden units of gathered row i; the gate's gradient; then, the gate being a factor of all that follows, the
  // gradients of the network's result and of s w1 + b1.
  void Row(int64_t i, int64_t row, const void* kept) const {
    float* const dy = dy_ + i * dim_stride_;
    float* const hidden = hidden_ + i * hidden_stride_;
    float* const dhidden = dhidden_ + i * hidden_stride_;
    float* const inner = inner_ + i * inner_stride_;
    const DropoutRow dropped = spec_.Dropped(of_.token, of_.expert, row);
    if (swiglu_) {
      kernels_.swiglu(kept, spec_.type, nullptr, spec_.hidden, dropped, hidden, nullptr, spec_.type);
    } else {
      kernels_.activate_with_slope(spec_.activation, kept, spec_.type, spec_.hidden, dropped, hidden, inner);
    }
    gradients_.gates[spec_.Place(of_.token, row) * spec_.experts + of_.expert] =
        Dot(hidden, dhidden, spec_.hidden) + Dot(of_.b2(), dy, spec_.dim);
    Scale(of_.gate(row), spec_.dim, dy);
    Scale(of_.gate(row), spec_.hidden, dhidden);
    if (swiglu_) {
      kernels_.swiglu_gradient(kept, spec_.type, dhidden, spec_.hidden, dropped, inner);
    } else {
      kernels_.multiply_by(dhidden, spec_.hidden, inner);
    }
  }

  void Scale(float by, int64_t n, float* numbers) const {
    kernels_.normalize(numbers, n, {0.0f, by}, ones_, nullptr, numbers);
  }

  const Expert& of_;
  const ExpertsSpec& spec_;
  const Kernels& kernels_;
  const Pairs& pairs_;
  const ExpertsKept& kept_;
  const ExpertsGradients& gradients_;
  float* const ds_;
  const bool swiglu_;
  const int64_t dim_stride_, inner_stride_, hidden_stride_;

  float* s_;        // [rows, dim]
  float* dy_;       // [rows, dim]
  float* hidden_;   // [rows, hidden]
  float* dhidden_;  // [rows, hidden]
  float* inner_;    // [rows, inner]: slopes of the activation, then the gradient of s w1 + b1
  float* ones_;
  float* db1_;
  float* db2_;
  float* dw1_;
  float* dw2_;
  char* again_ = nullptr;
};

}  // namespace

void BackwardExpert(const Expert& of, const Pairs& pairs, const ExpertsKept& kept, const ExpertsGradients& gradients,
                    float* ds) {
  ExpertPass(of, pairs, kept, gradients, ds).Run();
}

}  // namespace rankmixer
}  // namespace ps_cluster
