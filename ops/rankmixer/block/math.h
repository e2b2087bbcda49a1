// Functions of vectors of numbers that the activations are made of, to the accuracy of float32. NaN gives NaN.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_MATH_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_MATH_H_

#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// A polynomial, the coefficient of the highest power last
template <class V, int kCount>
PS_CLUSTER_INLINE typename V::F Polynomial(const float (&coefficients)[kCount], typename V::F x) {
  typename V::F sum = V::Set(coefficients[kCount - 1]);
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) sum = V::MultiplyAdd(sum, x, V::Set(coefficients[i]));
  return sum;
}

// e^(x + low) for x <= 0 and a small `low`, which carries what x could not hold; zero below e^-87.
template <class V>
PS_CLUSTER_INLINE typename V::F ExpOfNegative(typename V::F x, typename V::F low) {
  using F = typename V::F;
  // Of (e^r - 1 - r) / r^2 on [-0.4, 0.4]; error of the whole below 1e-8.
  constexpr float kTerms[] = {0.49999985f, 0.16666408f, 0.041669708f, 0.008380413f, 0.0013790470f};
  const F least = V::Set(-87.0f);
  const F clamped = x < least ? least : x;
  // Added to this, a number is rounded to a whole one, which then stands in the last bits.
  const F rounder = V::Set(12582912.0f);
  const F shifted = V::MultiplyAdd(clamped, V::Set(1.44269504f), rounder);
  const F power = shifted - rounder;
  F r = V::MultiplyAdd(power, V::Set(-0.693359375f), clamped);
  r = V::MultiplyAdd(power, V::Set(2.12194440e-4f), r) + low;
  const F value = V::MultiplyAdd(r * r, Polynomial<V>(kTerms, r), r) + V::Set(1.0f);
  const F scaled = value * V::FromBits((V::Bits(shifted) + V::SetBits(127)) << 23);
  return x < least ? F{} : scaled;
}

// The normal distribution: its density times sqrt(2 pi), exp(-a^2 / 2), and the part of it below a.
template <class V>
struct Normal {
  typename V::F density, below;
};

template <class V>
PS_CLUSTER_INLINE Normal<V> NormalOf(typename V::F a) {
  using F = typename V::F;
  // What is beyond t, divided by the density: of y = (t - 3) / (t + 3), relative error below 8e-9 up to t = 14.
  constexpr float kTerms[] = {0.12151395f,    -0.20640261f,   0.12322503f,     -0.04621329f,   0.0061320704f,
                              0.0029045562f, -0.0009837584f, -0.00033948486f, 0.00011554373f, 5.3671833e-05f};
  const F most = V::Set(14.0f);
  F t = V::Abs(a);
  t = t > most ? most : t;
  // The square in two parts, the first one exact: half its digits would be lost in the exponent otherwise.
  const F head = V::FromBits(V::Bits(t) & 0xfffff000u);
  const F density =
      ExpOfNegative<V>(V::Set(-0.5f) * head * head, V::Set(-0.5f) * (t - head) * (t + head));
  const F y = (t - V::Set(3.0f)) * V::Reciprocal(t + V::Set(3.0f));
  const F beyond = density * Polynomial<V>(kTerms, y);
  return {density, a < F{} ? beyond : V::Set(1.0f) - beyond};
}

// 1 / (1 + e^-a), and its slope.
template <class V>
struct Logistic {
  typename V::F value, slope;
};

template <class V>
PS_CLUSTER_INLINE Logistic<V> LogisticOf(typename V::F a) {
  using F = typename V::F;
  const F small = ExpOfNegative<V>(-V::Abs(a), F{});
  const F share = V::Reciprocal(V::Set(1.0f) + small);
  return {a < F{} ? small * share : share, small * share * share};
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_MATH_H_
