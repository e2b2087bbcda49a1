#include "ops/rankmixer/block/backward_token.h"

#include <algorithm>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/scratch.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

constexpr int64_t kGroupRows = 64;  // whose sums are taken together

// Rows whose gradients of weights are summed at a time. A larger chunk reads and writes those less often, a smaller
// one stays in the cache.
int64_t ChunkRows(const BlockSpec& spec) {
  const int64_t most = spec.dim * spec.inner <= 128 * 1024 ? 256 : 512;
  const int64_t chunks = (spec.batch + most - 1) / most;
  return (spec.batch + chunks - 1) / chunks;
}

class TokenPass {
 public:
  TokenPass(const Block& block, int64_t token, const BlockKept& kept, const BlockGradients& gradients,
            const Executor& executor, const NormSums& sums)
      : block_(block),
        spec_(block.spec),
        kernels_(block.kernels),
        token_(token),
        kept_(kept),
        gradients_(gradients),
        executor_(executor),
        sums_(sums),
        post_(block.spec.norm == Norm::kPostLayer),
        swiglu_(block.spec.activation == Activation::kSwiglu),
        dim_stride_(TileStride(spec_.dim)),
        inner_stride_(TileStride(spec_.inner)),
        hidden_stride_(TileStride(spec_.hidden)) {
    const int64_t rows = ChunkRows(spec_);
    const int64_t bytes = Carve(rows, nullptr);
    Carve(rows, Scratch::OfThread(Scratch::kChunk).Get(bytes));
  }

  void Run() {
    const int64_t rows = ChunkRows(spec_);
    std::fill_n(db1_, spec_.inner, 0.0f);
    std::fill_n(db2_, spec_.dim, 0.0f);
    for (row_ = 0; row_ < spec_.batch; row_ += rows) {
      rows_ = std::min(rows, spec_.batch - row_);
      Chunk();
    }
    kernels_.narrow(db1_, spec_.inner, At(gradients_.b1, spec_.type, token_ * spec_.inner), spec_.type, false);
    kernels_.narrow(db2_, spec_.dim, At(gradients_.b2, spec_.type, token_ * spec_.dim), spec_.type, false);
    if (spec_.type != Number::kFloat32) {
      Narrow(dw1_, spec_.dim * spec_.inner, gradients_.w1);
      Narrow(dw2_, spec_.hidden * spec_.dim, gradients_.w2);
    }
  }

 private:
  int64_t Carve(int64_t rows, void* memory) {
    Carver carver(memory);
    s_ = carver.Array<float>(rows * dim_stride_);
    dz_ = carver.Array<float>(rows * dim_stride_);
    hidden_ = carver.Array<float>(rows * hidden_stride_);
    inner_ = carver.Array<float>(rows * inner_stride_);
    moments_ = carver.Array<Moments>(rows);
    group_sums_ = carver.Array<float>((rows + kGroupRows - 1) / kGroupRows * 2 * dim_stride_);
    db1_ = carver.Array<float>(spec_.inner);
    db2_ = carver.Array<float>(spec_.dim);
    if (kept_.inner == nullptr) {
      again_inner_ = carver.Array<char>(rows * spec_.inner * SizeOf(spec_.type));
      again_sum_ = carver.Array<char>(rows * spec_.dim * SizeOf(spec_.type));
    }
    const int64_t weights = spec_.dim * spec_.inner, back = spec_.hidden * spec_.dim;
    if (spec_.type == Number::kFloat32) {
      dw1_ = static_cast<float*>(gradients_.w1) + token_ * weights;
      dw2_ = static_cast<float*>(gradients_.w2) + token_ * back;
    } else {
      dw1_ = carver.Array<float>(weights);
      dw2_ = carver.Array<float>(back);
    }
    return carver.bytes();
  }

  void Narrow(const float* from, int64_t count, void* to) {
    RunParts(executor_, count, PartSize(count, executor_.threads(), 2, 4096), [&](int64_t first, int64_t part) {
      kernels_.narrow(from + first, part, At(to, spec_.type, token_ * count + first), spec_.type, false);
    });
  }

  void Chunk() {
    FindKept();
    Groups(post_ ? sums_.gamma2 : nullptr, post_ ? sums_.beta2 : nullptr,
           [this](int64_t i, float* rows, float* dgamma, float* dbeta) { Begin(i, rows, dgamma, dbeta); });
    SecondWeights();
    HiddenGradient();
    FirstWeights();
    InputGradient();
    Groups(post_ ? sums_.gamma1 : sums_.gamma2, post_ ? sums_.beta1 : nullptr,
           [this](int64_t i, float* rows, float* dgamma, float* dbeta) { End(i, rows, dgamma, dbeta); });
  }

  // Where the kept numbers of the chunk's rows are; computed first where they were not kept.
  void FindKept() {
    if (kept_.inner != nullptr) {
      const int64_t first = token_ * spec_.batch + row_;
      inner_kept_ = At(kept_.inner, spec_.type, first * spec_.inner);
      sum_kept_ = At(kept_.sum, spec_.type, first * spec_.dim);
      return;
    }
    RunParts(executor_, rows_, PartSize(rows_, executor_.threads(), 1, 32), [this](int64_t first, int64_t rows) {
      const TileOutputs outputs = {nullptr, 0, At(again_inner_, spec_.type, first * spec_.inner),
                                   At(again_sum_, spec_.type, first * spec_.dim)};
      ForwardTile(block_, token_, row_ + first, rows, outputs);
    });
    inner_kept_ = again_inner_;
    sum_kept_ = again_sum_;
  }

  // Calls work(i, two rows of scratch, sums, sums) for all rows of the chunk, then adds the sums, each of one group of
  // rows, to the token's.
  template <class Work>
  void Groups(float* gamma, float* beta, const Work& work) {
    const int64_t groups = (rows_ + kGroupRows - 1) / kGroupRows;
    executor_.Run(groups, [&](int64_t group) {
      float* const rows = static_cast<float*>(Scratch::OfThread(Scratch::kTile).Get(2 * dim_stride_ * 4));
      float* const dgamma = group_sums_ + group * 2 * dim_stride_;
      std::fill_n(dgamma, 2 * dim_stride_, 0.0f);
      const int64_t end = std::min(rows_, (group + 1) * kGroupRows);
      for (int64_t i = group * kGroupRows; i < end; ++i) work(i, rows, dgamma, dgamma + dim_stride_);
    });
    for (int64_t group = 0; group < groups; ++group) {
      const float* const dgamma = group_sums_ + group * 2 * dim_stride_;
      if (gamma != nullptr) kernels_.add(dgamma, spec_.dim, gamma);
      if (beta != nullptr) kernels_.add(dgamma + dim_stride_, spec_.dim, beta);
    }
  }

  const void* SumKept(int64_t i) const { return At(sum_kept_, spec_.type, i * spec_.dim); }
  const void* InnerKept(int64_t i) const { return At(inner_kept_, spec_.type, i * spec_.inner); }

  // s, the gradient of the network's result, the hidden units and their slopes.
  void Begin(int64_t i, float* rows, float* dgamma, float* dbeta) {
    float* const u = rows;
    float* const dy = rows + dim_stride_;
    float* const dz = dz_ + i * dim_stride_;
    const void* const given = At(kept_.dy, spec_.type, ((row_ + i) * spec_.tokens + token_) * spec_.dim);
    const int64_t row_bytes = spec_.tokens * spec_.dim * SizeOf(spec_.type);
    PrefetchNumbers(static_cast<const char*>(given) + kRowsAhead * row_bytes, spec_.dim * SizeOf(spec_.type));
    if (post_) {
      kernels_.widen(given, spec_.type, spec_.dim, dy);
      kernels_.widen(SumKept(i), spec_.type, spec_.dim, u);
      kernels_.normalize_gradient(dy, u, spec_.dim, kernels_.layer_moments(u, spec_.dim, spec_.epsilon),
                                  block_.inputs.gamma2, dz, dgamma, dbeta);
    } else {
      kernels_.widen(given, spec_.type, spec_.dim, dz);
    }
    const float* const source = FindSource(i, u);
    moments_[i] = block_.NetworkMoments(source);
    block_.NetworkInput(source, moments_[i], s_ + i * dim_stride_);
    const DropoutRow dropout(spec_, token_, row_ + i);
    float* const h = hidden_ + i * hidden_stride_;
    if (swiglu_) {
      kernels_.swiglu(InnerKept(i), spec_.type, nullptr, spec_.hidden, dropout, h, nullptr, spec_.type);
    } else {
      kernels_.activate_with_slope(spec_.activation, InnerKept(i), spec_.type, spec_.hidden, dropout, h,
                                   inner_ + i * inner_stride_);
    }
  }

  // With kPreRms the source was kept, in its own type: what else was kept is of the number that type has.
  const float* FindSource(int64_t i, float* u) const {
    if (post_) return block_.source(token_, row_ + i);
    kernels_.widen(SumKept(i), spec_.type, spec_.dim, u);
    return u;
  }

  Product Gradient(int64_t m, int64_t k, const MatrixView& a, const MatrixView& b, float* c, int64_t c_stride,
                   bool accumulate, bool stream = false) const {
    Product product = {m, 0, k, a, b, c, c_stride};
    product.stream = stream;
    product.accumulate = accumulate;
    product.factors = block_.factors();
    return product;
  }

  // Computes the product for all of n columns, in parts of columns.
  template <class Part>
  void InParts(const Product& product, int64_t n, const Part& with_part) const {
    RunParts(executor_, n, PartSize(n, executor_.threads(), 1, 32), [&](int64_t column, int64_t columns) {
      Product part = product;
      part.n = columns;
      part.b = product.b.From(0, column);
      part.c = product.c + column;
      with_part(&part, column, columns);
    });
  }

  // Gradients of weights that are complete after this chunk.
  bool StreamsWeights() const {
    return rows_ == spec_.batch && spec_.type == Number::kFloat32 &&
           IsLarge(spec_.tokens * spec_.dim * spec_.inner, spec_.type);
  }

  void SecondWeights() {
    const Product product = Gradient(spec_.hidden, rows_, {hidden_, hidden_stride_, Number::kFloat32, true},
                                     {dz_, dim_stride_}, dw2_, spec_.dim, row_ > 0, StreamsWeights());
    InParts(product, spec_.dim, [this](Product* part, int64_t column, int64_t columns) {
      Multiply(kernels_, *part);
      FinishStreams();
      kernels_.add_column_sums(dz_ + column, dim_stride_, rows_, columns, db2_ + column);
    });
  }

  struct SlopePart {
    const TokenPass* pass;
    int64_t column;

    // What was the slope of the activation becomes the gradient of its argument.
    static void Apply(void* context, int64_t row, int64_t rows, int64_t column, int64_t columns) {
      const SlopePart& part = *static_cast<const SlopePart*>(context);
      const TokenPass& pass = *part.pass;
      const int64_t at = part.column + column;
      for (int64_t i = row; i < row + rows; ++i) {
        pass.kernels_.multiply_by(pass.hidden_ + i * pass.hidden_stride_ + at, columns,
                                  pass.inner_ + i * pass.inner_stride_ + at);
      }
    }
  };

  // The gradient of the hidden units takes their place, that of the inner numbers the slopes'.
  void HiddenGradient() {
    const Product product =
        Gradient(rows_, spec_.dim, {dz_, dim_stride_}, block_.w2(token_, true), hidden_, hidden_stride_, false);
    InParts(product, spec_.hidden, [this](Product* part, int64_t column, int64_t) {
      SlopePart slope = {this, column};
      if (!swiglu_) part->epilogue = {&SlopePart::Apply, &slope};
      Multiply(kernels_, *part);
    });
    if (!swiglu_) return;
    RunParts(executor_, rows_, kGroupRows, [this](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) {
        kernels_.swiglu_gradient(InnerKept(i), spec_.type, hidden_ + i * hidden_stride_, spec_.hidden,
                                 DropoutRow(spec_, token_, row_ + i), inner_ + i * inner_stride_);
      }
    });
  }

  void FirstWeights() {
    const Product product = Gradient(spec_.dim, rows_, {s_, dim_stride_, Number::kFloat32, true},
                                     {inner_, inner_stride_}, dw1_, spec_.inner, row_ > 0, StreamsWeights());
    InParts(product, spec_.inner, [this](Product* part, int64_t column, int64_t columns) {
      Multiply(kernels_, *part);
      FinishStreams();
      kernels_.add_column_sums(inner_ + column, inner_stride_, rows_, columns, db1_ + column);
    });
  }

  // The gradient of s: with kPostLayer it joins that of the residual, else it takes the place of s.
  void InputGradient() {
    const Product product = Gradient(rows_, spec_.inner, {inner_, inner_stride_}, block_.w1(token_, true),
                                     post_ ? dz_ : s_, dim_stride_, post_);
    InParts(product, spec_.dim, [this](Product* part, int64_t, int64_t) { Multiply(kernels_, *part); });
  }

  void End(int64_t i, float* rows, float* dgamma, float* dbeta) {
    float* const du = block_.source(token_, row_ + i);
    const float* const u = FindSource(i, rows);
    if (post_) {
      kernels_.normalize_gradient(dz_ + i * dim_stride_, u, spec_.dim, moments_[i], block_.inputs.gamma1, du,
                                  dgamma, dbeta);
    } else {
      kernels_.normalize_gradient(s_ + i * dim_stride_, u, spec_.dim, moments_[i], block_.inputs.gamma2, du,
                                  dgamma, nullptr);
      kernels_.add(dz_ + i * dim_stride_, spec_.dim, du);
    }
  }

  const Block& block_;
  const BlockSpec& spec_;
  const Kernels& kernels_;
  const int64_t token_;
  const BlockKept& kept_;
  const BlockGradients& gradients_;
  const Executor& executor_;
  const NormSums& sums_;
  const bool post_, swiglu_;
  const int64_t dim_stride_, inner_stride_, hidden_stride_;

  int64_t row_ = 0, rows_ = 0;  // of the chunk
  float* s_;       // [rows, dim]
  float* dz_;      // [rows, dim]
  float* hidden_;  // [rows, hidden]
  float* inner_;   // [rows, inner]
  Moments* moments_;
  float* group_sums_;  // [groups, 2, dim]
  float* db1_;
  float* db2_;
  float* dw1_;
  float* dw2_;
  char* again_inner_ = nullptr;
  char* again_sum_ = nullptr;
  const void* inner_kept_ = nullptr;
  const void* sum_kept_ = nullptr;
};

}  // namespace

void BackwardToken(const Block& block, int64_t token, const BlockKept& kept, const BlockGradients& gradients,
                   const Executor& executor, const NormSums& sums) {
  TokenPass(block, token, kept, gradients, executor, sums).Run();
}

}  // namespace rankmixer
}  // namespace ps_cluster
