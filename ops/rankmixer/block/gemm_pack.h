// Copies parts of matrices into the order in which a product's inner loop reads them.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_H_

#include <cstdint>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// `total` cut into the fewest parts of at most `most`, all alike but for rounding up to `multiple`.
template <class V>
int64_t EvenPart(int64_t total, int64_t most, int64_t multiple) {
  const int64_t parts = (total + most - 1) / most;
  if (parts == 0) return multiple;
  const int64_t part = (total + parts - 1) / parts;
  return (part + multiple - 1) / multiple * multiple;
}

// Transposes a square of kLanes vectors: each round deals the first and the second half like two packs of cards.
template <class V>
inline void Transpose(typename V::F* rows) {
  constexpr int kLanes = V::kLanes;
  typename V::F other[kLanes];
  typename V::F* from = rows;
  typename V::F* to = other;
  int rounds = 0;
#pragma GCC unroll 8
  for (int width = 1; width < kLanes; width *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      to[2 * i] = V::ZipLow(from[i], from[i + kLanes / 2]);
      to[2 * i + 1] = V::ZipHigh(from[i], from[i + kLanes / 2]);
    }
    typename V::F* swap = from;
    from = to;
    to = swap;
    ++rounds;
  }
  if (rounds % 2 == 1) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = other[i];
  }
}

// Row i of `to` [columns, rows; stride] becomes column i of `from` [rows, columns], element (i, j) of which is at
// i * from.stride + j; what is over in `to` up to a full vector of rows is zero.
template <class V>
void PackTransposed(const MatrixView& from, int64_t rows, int64_t columns, float* to, int64_t stride) {
  constexpr int kLanes = V::kLanes;
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int64_t high = rows - i < kLanes ? rows - i : kLanes;
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t wide = columns - j < kLanes ? columns - j : kLanes;
      typename V::F square[kLanes];
      if (high == kLanes && wide == kLanes && from.type == Number::kFloat32) {
        const float* data = static_cast<const float*>(from.data) + i * from.stride + j;
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) square[r] = V::Load(data + r * from.stride);
        // The next rows, which are far from these.
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) __builtin_prefetch(data + (kLanes + r) * from.stride);
        Transpose<V>(square);
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) V::Store(to + (j + r) * stride + i, square[r]);
        continue;
      }
      for (int r = 0; r < kLanes; ++r) {
        square[r] = r < high ? LoadAs<V>(from.data, from.type, (i + r) * from.stride + j, wide) : typename V::F{};
      }
      Transpose<V>(square);
      for (int r = 0; r < wide; ++r) V::Store(to + (j + r) * stride + i, square[r]);
    }
  }
}

// Packs b [k, n] as panels of `width` columns: a panel is [k, width], the last one filled up with zeros.
template <class V>
void PackPanels(const MatrixView& b, int64_t k, int64_t n, int64_t width, float* to) {
  constexpr int kLanes = V::kLanes;
  if (b.transposed) {
    for (int64_t j = 0; j < n; j += width, to += k * width) {
      const int64_t columns = n - j < width ? n - j : width;
      const MatrixView panel = b.From(0, j);
      PackTransposed<V>(panel, columns, k, to, width);
      // A panel of one full vector or less leaves whole vectors of the panel untouched; they are never read.
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    float* row = to + p * width;
    const char* const later = static_cast<const char*>(At(b.data, b.type, (p + 4) * b.stride));
    for (int64_t at = 0; at < n * SizeOf(b.type); at += 64) __builtin_prefetch(later + at);
    for (int64_t j = 0; j < n; j += width, row += k * width) {
      const int64_t columns = n - j < width ? n - j : width;
      for (int64_t v = 0; v < columns; v += kLanes) {
        V::Store(row + v, LoadAs<V>(b.data, b.type, p * b.stride + j + v, columns - v));
      }
    }
  }
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_H_
