// Row-wise kernels: copies, mixing, norms, sums.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_ROWS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_ROWS_H_

#include "ops/rankmixer/block/kernels.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// The lanes that are not there are zero when loaded, and not stored.
template <class V>
typename V::F LoadRow(const float* row, int64_t i, int64_t n) {
  return n - i >= V::kLanes ? V::Load(row + i) : V::LoadPart(row + i, static_cast<int>(n - i));
}

template <class V>
void StoreRow(float* row, int64_t i, typename V::F value, int64_t n) {
  n - i >= V::kLanes ? V::Store(row + i, value) : V::StorePart(row + i, value, static_cast<int>(n - i));
}

template <class V>
struct Rows {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

  static void Widen(const void* from, Number type, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += kLanes) StoreRow<V>(to, i, LoadAs<V>(from, type, i, n - i), n);
  }

  static void Narrow(const float* from, int64_t n, void* to, Number type, bool stream) {
    if (stream && n % kLanes == 0 && CanStream<V>(to, type)) {
      for (int64_t i = 0; i < n; i += kLanes) V::Stream(static_cast<float*>(to) + i, V::Load(from + i));
      return;
    }
    for (int64_t i = 0; i < n; i += kLanes) StoreAs<V>(to, type, i, LoadRow<V>(from, i, n), n - i);
  }

  static void GatherHeads(const float* from, int64_t stride, int64_t heads, int64_t width, float* to) {
    for (int64_t j = 0; j < heads; ++j, from += stride, to += width) {
      for (int64_t d = 0; d < width; d += kLanes) StoreRow<V>(to, d, LoadRow<V>(from, d, width), width);
    }
  }

  static void AddWide(const void* from, Number type, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += kLanes) {
      StoreRow<V>(to, i, LoadRow<V>(to, i, n) + LoadAs<V>(from, type, i, n - i), n);
    }
  }

  static Moments LayerMoments(const float* u, int64_t n, float epsilon) {
    F sum{};
    for (int64_t i = 0; i < n; i += kLanes) sum = sum + LoadRow<V>(u, i, n);
    const float mean = V::Sum(sum) / static_cast<float>(n);
    F squares{};
    for (int64_t i = 0; i < n; i += kLanes) {
      F centred = LoadRow<V>(u, i, n) - V::Set(mean);
      if (n - i < kLanes) centred = V::First(centred, static_cast<int>(n - i));
      squares = V::MultiplyAdd(centred, centred, squares);
    }
    return {mean, 1.0f / __builtin_sqrtf(V::Sum(squares) / static_cast<float>(n) + epsilon)};
  }

  static Moments RmsMoments(const float* u, int64_t n, float epsilon) {
    F squares{};
    for (int64_t i = 0; i < n; i += kLanes) {
      const F value = LoadRow<V>(u, i, n);
      squares = V::MultiplyAdd(value, value, squares);
    }
    return {0.0f, 1.0f / __builtin_sqrtf(V::Sum(squares) / static_cast<float>(n) + epsilon)};
  }

  static void Normalize(const float* u, int64_t n, const Moments& moments, const float* gamma, const float* beta,
                        float* normed) {
    const F mean = V::Set(moments.mean), scale = V::Set(moments.scale);
    for (int64_t i = 0; i < n; i += kLanes) {
      const F value = (LoadRow<V>(u, i, n) - mean) * scale;
      const F shift = beta == nullptr ? F{} : LoadRow<V>(beta, i, n);
      StoreRow<V>(normed, i, V::MultiplyAdd(value, LoadRow<V>(gamma, i, n), shift), n);
    }
  }

  static void NormalizeGradient(const float* dy, const float* u, int64_t n, const Moments& moments,
                                const float* gamma, float* du, float* dgamma, float* dbeta) {
    const F mean = V::Set(moments.mean), scale = V::Set(moments.scale);
    F sum{}, along{};  // of the gradient g of (u - mean) * scale, and of its product with that
    for (int64_t i = 0; i < n; i += kLanes) {
      const F value = (LoadRow<V>(u, i, n) - mean) * scale;
      const F slope = LoadRow<V>(dy, i, n);
      const F g = slope * LoadRow<V>(gamma, i, n);
      StoreRow<V>(dgamma, i, V::MultiplyAdd(slope, value, LoadRow<V>(dgamma, i, n)), n);
      if (dbeta != nullptr) StoreRow<V>(dbeta, i, LoadRow<V>(dbeta, i, n) + slope, n);
      sum = sum + g;
      along = V::MultiplyAdd(g, value, along);
    }
    const float count = static_cast<float>(n);
    const F shift = dbeta == nullptr ? F{} : V::Set(V::Sum(sum) / count);
    const F share = V::Set(V::Sum(along) / count);
    for (int64_t i = 0; i < n; i += kLanes) {
      const F value = (LoadRow<V>(u, i, n) - mean) * scale;
      const F g = LoadRow<V>(dy, i, n) * LoadRow<V>(gamma, i, n) - shift;
      StoreRow<V>(du, i, (g - value * share) * scale, n);
    }
  }

  static void MultiplyBy(const float* by, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += kLanes) StoreRow<V>(to, i, LoadRow<V>(to, i, n) * LoadRow<V>(by, i, n), n);
  }

  static void Add(const float* one, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += kLanes) StoreRow<V>(to, i, LoadRow<V>(to, i, n) + LoadRow<V>(one, i, n), n);
  }

  static void AddTwo(const float* one, const float* two, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += kLanes) {
      StoreRow<V>(to, i, LoadRow<V>(to, i, n) + LoadRow<V>(one, i, n) + LoadRow<V>(two, i, n), n);
    }
  }

  static void AddColumnSums(const float* from, int64_t stride, int64_t rows, int64_t n, float* sums) {
    for (int64_t i = 0; i < n; i += kLanes) {
      F sum = LoadRow<V>(sums, i, n);
      for (int64_t r = 0; r < rows; ++r) sum = sum + LoadRow<V>(from + r * stride, i, n);
      StoreRow<V>(sums, i, sum, n);
    }
  }
};

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_ROWS_H_
