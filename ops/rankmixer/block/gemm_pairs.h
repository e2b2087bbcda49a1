// The product with factors rounded to bfloat16, in vectors of pairs: the loops of gemm_float32.h, each number a pair.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PAIRS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PAIRS_H_

#include <cstdint>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/gemm_float32.h"
#include "ops/rankmixer/block/gemm_pack_pairs.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// `V` has vectors of 16 lanes, and `V::kPairs`.
template <class V>
void MultiplyPairs(const Product& product, void* scratch) {
  static_assert(V::kPairs && V::kLanes == 16 && V::kTileRows <= kPackedRows, "as gemm_pack_pairs.h packs");
  constexpr int64_t kPanel = 2 * V::kLanes;
  const int64_t depth = EvenPart<V>(product.k, 2 * kMostDepth, 32);
  const int64_t width = EvenPart<V>(product.n, kBlockNumbers / (depth / 2) / kPanel * kPanel, kPanel);
  const int64_t height = EvenPart<V>(product.m, V::kTileRows, 1);
  const bool stream = product.stream && depth >= product.k && product.c_stride % V::kLanes == 0 &&
                      CanStream<V>(product.c, Number::kFloat32);
  float* const block = static_cast<float*>(scratch);
  float* const group = block + kBlockNumbers;
  for (int64_t j0 = 0; j0 < product.n; j0 += width) {
    const int64_t columns = product.n - j0 < width ? product.n - j0 : width;
    for (int64_t p0 = 0; p0 == 0 || p0 < product.k; p0 += depth) {
      const int64_t deep = product.k - p0 < depth ? product.k - p0 : depth;
      const int64_t pairs = (deep + 31) / 32 * 16;
      const StoreKind kind = product.accumulate || p0 > 0 ? StoreKind::kAdd
                             : stream                     ? StoreKind::kStream
                                                          : StoreKind::kReplace;
      PackPairs<V>(product.b.From(p0, j0), deep, columns, reinterpret_cast<uint16_t*>(block));
      for (int64_t i0 = 0; i0 < product.m; i0 += height) {
        const int64_t rows = product.m - i0 < height ? product.m - i0 : height;
        MatrixView a = product.a.From(i0, p0);
        a.transposed = !a.transposed;
        PackPairs<V>(a, deep, rows, reinterpret_cast<uint16_t*>(group));
        const TileFunction tile = kTiles<V>.of_rows[rows];
        float* const c = product.c + i0 * product.c_stride + j0;
        for (int64_t j = 0; j < columns; j += kPanel) {
          const int64_t wide = columns - j < kPanel ? columns - j : kPanel;
          tile(group, 0, true, block + j * pairs, pairs, c + j, product.c_stride, static_cast<int>(wide), kind);
        }
        if (p0 + deep >= product.k && product.epilogue.run != nullptr) {
          product.epilogue.run(product.epilogue.context, i0, rows, j0, columns);
        }
      }
    }
  }
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PAIRS_H_
