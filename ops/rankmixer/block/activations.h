// Row-wise kernels of the hidden units: bias, activation, dropout, and their slopes.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_ACTIVATIONS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_ACTIVATIONS_H_

#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/math.h"
#include "ops/rankmixer/block/rows.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// The factors of the units in the lanes: 0 or `row.scale`.
template <class V>
PS_CLUSTER_INLINE typename V::F DropoutFactors(const DropoutRow& row, typename V::U unit) {
  typename V::U h = (unit * V::SetBits(0x9e3779b1u)) ^ V::SetBits(row.low);
  h = (h ^ (h >> 16)) * V::SetBits(0x85ebca6bu);
  h = h ^ V::SetBits(row.high);
  h = (h ^ (h >> 13)) * V::SetBits(0xc2b2ae35u);
  h = h ^ (h >> 16);
  return h < V::SetBits(row.threshold) ? typename V::F{} : V::Set(row.scale);
}

template <class V>
struct Gelu {
  using F = typename V::F;
  PS_CLUSTER_INLINE static F Value(F a) { return a * NormalOf<V>(a).below; }
  PS_CLUSTER_INLINE static F WithSlope(F a, F* slope) {
    const Normal<V> normal = NormalOf<V>(a);
    *slope = V::MultiplyAdd(a * normal.density, V::Set(0.39894228f), normal.below);
    return a * normal.below;
  }
};

// 0.5 a (1 + tanh(u / 2)) = a / (1 + e^-u), u = 2 sqrt(2 / pi) (a + 0.044715 a^3).
template <class V>
struct GeluTanh {
  using F = typename V::F;
  PS_CLUSTER_INLINE static F Inner(F a) {
    return a * V::MultiplyAdd(a * a, V::Set(0.071354816f), V::Set(1.5957691f));
  }
  PS_CLUSTER_INLINE static F Value(F a) { return a * LogisticOf<V>(Inner(a)).value; }
  PS_CLUSTER_INLINE static F WithSlope(F a, F* slope) {
    const Logistic<V> logistic = LogisticOf<V>(Inner(a));
    const F inner = V::MultiplyAdd(a * a, V::Set(0.21406445f), V::Set(1.5957691f));
    *slope = V::MultiplyAdd(a * logistic.slope, inner, logistic.value);
    return a * logistic.value;
  }
};

template <class V>
struct Activations {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

  PS_CLUSTER_INLINE static F Drop(F value, const DropoutRow& dropout, int64_t unit) {
    if (dropout.threshold == 0) return value * V::Set(dropout.scale);
    return value * DropoutFactors<V>(dropout, V::Iota() + V::SetBits(static_cast<uint32_t>(unit)));
  }

  template <class Function>
  static void ActivateBy(const float* a, const float* bias, int64_t n, const DropoutRow& dropout, int64_t unit,
                         float* h, void* kept, Number type, bool stream) {
    if (stream && kept != nullptr && n % kLanes == 0 && CanStream<V>(kept, type)) {
      for (int64_t i = 0; i < n; i += kLanes) {
        const F value = V::Load(a + i) + V::Load(bias + i);
        V::Stream(static_cast<float*>(kept) + i, value);
        V::Store(h + i, Drop(Function::Value(value), dropout, unit + i));
      }
      return;
    }
    for (int64_t i = 0; i < n; i += kLanes) {
      const F value = LoadRow<V>(a, i, n) + LoadRow<V>(bias, i, n);
      if (kept != nullptr) StoreAs<V>(kept, type, i, value, n - i);
      StoreRow<V>(h, i, Drop(Function::Value(value), dropout, unit + i), n);
    }
  }

  static void Activate(Activation activation, const float* a, const float* bias, int64_t n, const DropoutRow& dropout,
                       int64_t unit, float* h, void* kept, Number type, bool stream) {
    activation == Activation::kGelu ? ActivateBy<Gelu<V>>(a, bias, n, dropout, unit, h, kept, type, stream)
                                    : ActivateBy<GeluTanh<V>>(a, bias, n, dropout, unit, h, kept, type, stream);
  }

  template <class Function>
  static void SlopeBy(const void* kept, Number type, int64_t n, const DropoutRow& dropout, float* h, float* slope) {
    for (int64_t i = 0; i < n; i += kLanes) {
      F rise;
      const F value = Function::WithSlope(LoadAs<V>(kept, type, i, n - i), &rise);
      StoreRow<V>(h, i, Drop(value, dropout, i), n);
      StoreRow<V>(slope, i, Drop(rise, dropout, i), n);
    }
  }

  static void ActivateWithSlope(Activation activation, const void* kept, Number type, int64_t n,
                                const DropoutRow& dropout, float* h, float* slope) {
    activation == Activation::kGelu ? SlopeBy<Gelu<V>>(kept, type, n, dropout, h, slope)
                                    : SlopeBy<GeluTanh<V>>(kept, type, n, dropout, h, slope);
  }

  static void Swiglu(const void* a, Number a_type, const float* bias, int64_t n, const DropoutRow& dropout, float* h,
                     void* kept, Number type) {
    for (int64_t i = 0; i < n; i += kLanes) {
      F gate = LoadAs<V>(a, a_type, i, n - i), value = LoadAs<V>(a, a_type, n + i, n - i);
      if (bias != nullptr) {
        gate = gate + LoadRow<V>(bias, i, n);
        value = value + LoadRow<V>(bias + n, i, n);
      }
      if (kept != nullptr) {
        StoreAs<V>(kept, type, i, gate, n - i);
        StoreAs<V>(kept, type, n + i, value, n - i);
      }
      StoreRow<V>(h, i, Drop(gate * LogisticOf<V>(gate).value * value, dropout, i), n);
    }
  }

  static void SwigluGradient(const void* kept, Number type, const float* dh, int64_t n, const DropoutRow& dropout,
                             float* da) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const F gate = LoadAs<V>(kept, type, i, n - i), value = LoadAs<V>(kept, type, n + i, n - i);
      const Logistic<V> logistic = LogisticOf<V>(gate);
      const F slope = Drop(LoadRow<V>(dh, i, n), dropout, i);
      StoreRow<V>(da, i, slope * value * V::MultiplyAdd(gate, logistic.slope, logistic.value), n);
      StoreRow<V>(da + n, i, slope * gate * logistic.value, n);
    }
  }
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_ACTIVATIONS_H_
