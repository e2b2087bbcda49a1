#include "ops/rankmixer/experts/expert.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

// What the first product's epilogue needs to make hidden units of its numbers.
struct Hidden {
  const Expert& of;
  const int64_t* rows;
  float* inner;
  int64_t stride;
  void* kept;

  void* KeptAt(int64_t i, int64_t column) const {
    return kept == nullptr ? nullptr : At(kept, of.spec.type, i * of.spec.inner + column);
  }

  static void Activate(void* context, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const Hidden& hidden = *static_cast<const Hidden*>(context);
    const Expert& of = hidden.of;
    for (int64_t i = row; i < row + rows; ++i) {
      float* const numbers = hidden.inner + i * hidden.stride + column;
      of.kernels.activate(of.spec.activation, numbers, of.b1() + column, columns,
                          of.spec.Dropped(of.token, of.expert, hidden.rows[i]), column, numbers,
                          hidden.KeptAt(i, column), of.spec.type, false);
    }
  }

  void Swiglu(int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      float* const numbers = inner + i * stride;
      of.kernels.swiglu(numbers, Number::kFloat32, of.b1(), of.spec.hidden,
                        of.spec.Dropped(of.token, of.expert, rows[i]), numbers, KeptAt(i, 0), of.spec.type);
    }
  }
};

}  // namespace

void Expert::Gather(const void* from, const int64_t* rows, int64_t count, float* to, int64_t stride) const {
  for (int64_t i = 0; i < count; ++i) {
    kernels.widen(At(from, spec.type, spec.Place(token, rows[i]) * spec.dim), spec.type, spec.dim, to + i * stride);
  }
}

void Expert::HiddenUnits(const int64_t* rows, int64_t count, const float* s, int64_t s_stride, float* inner,
                         int64_t inner_stride, void* kept) const {
  Hidden hidden = {*this, rows, inner, inner_stride, kept};
  const bool swiglu = spec.activation == Activation::kSwiglu;
  Product product = {count, spec.inner, spec.dim, {s, s_stride}, w1(false), inner, inner_stride};
  product.factors = factors();
  if (!swiglu) product.epilogue = {&Hidden::Activate, &hidden};
  Multiply(kernels, product);
  if (swiglu) hidden.Swiglu(count);
}

}  // namespace rankmixer
}  // namespace ps_cluster
