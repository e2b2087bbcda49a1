// The product with factors rounded to bfloat16, in the tiles of AMX: a tile of a is 16 rows of 32 numbers, a tile of b
// 16 rows of 16 pairs, a tile of c 16 x 16 float32 sums.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_AMX_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_AMX_H_

#include <immintrin.h>

#include <cstdint>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/gemm_pack.h"
#include "ops/rankmixer/block/gemm_pack_pairs.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

// Numbers of bfloat16 in blocks; a block of b stays in the second level of the cache, and so does one of a.
constexpr int64_t kAmxMostDepth = 1024;
constexpr int64_t kAmxMostColumns = 512;
constexpr int64_t kAmxMostRows = 256;
constexpr int64_t kAmxScratchBytes =
    2 * kAmxMostDepth * (kAmxMostColumns + kAmxMostRows) + 4 * (16 * kAmxMostDepth + 32 * 32);

struct AmxTileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// a [rows, depth] as tiles: those of 16 rows follow each other along the depth.
template <class V>
void PackAmxRows(const MatrixView& a, int64_t rows, int64_t depth, uint16_t* to) {
  const MatrixView plain = {a.data, a.stride, a.type, false};
  for (int64_t i = 0; i < rows; i += 16) {
    const int64_t high = rows - i < 16 ? rows - i : 16;
    for (int64_t p = 0; p < depth; p += 32, to += kPairTile) {
      const int64_t wide = depth - p < 32 ? depth - p : 32;
      if (a.transposed) {
        StorePairs<V>(plain, p, wide, i, high, to);
        TransposeWords<V>(to);
        continue;
      }
      for (int64_t r = 0; r < 16; ++r) {
        if (r < high) {
          StoreRowPart<V>(plain, i + r, p, wide, to + r * 32);
        } else {
          __builtin_memset(to + r * 32, 0, 64);
        }
      }
    }
  }
}

// 32 x 32 sums over `tiles` tiles of depth, into `to` [32, 32]. The second tiles of a and b are `a_next` and `b_next`
// numbers after the first; zero where there is none.
template <class V>
void AmxSquare(const uint16_t* a, int64_t a_next, const uint16_t* b, int64_t b_next, int64_t tiles, float* to) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t p = 0; p < tiles; ++p, a += kPairTile, b += kPairTile) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (b_next > 0) {
      _tile_loadd(7, b + b_next, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (a_next > 0) {
      _tile_loadd(5, a + a_next, 64);
      _tile_dpbf16ps(2, 5, 6);
      if (b_next > 0) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, to, 128);
  _tile_stored(1, to + 16, 128);
  _tile_stored(2, to + 16 * 32, 128);
  _tile_stored(3, to + 16 * 32 + 16, 128);
}

template <class V>
void StoreSquare(const float* from, int64_t rows, int64_t columns, bool add, float* c, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < columns; v += 16) {
      typename V::F sum = V::Load(from + r * 32 + v);
      float* const to = c + r * stride + v;
      const int count = static_cast<int>(columns - v);
      if (count >= 16) {
        V::Store(to, add ? V::Load(to) + sum : sum);
      } else {
        V::StorePart(to, add ? V::LoadPart(to, count) + sum : sum, count);
      }
    }
  }
}

template <class V>
void MultiplyAmx(const Product& product, void* scratch) {
  const int64_t depth = EvenPart<V>(product.k, kAmxMostDepth, 32);
  const int64_t width = EvenPart<V>(product.n, kAmxMostColumns, 32);
  const int64_t height = EvenPart<V>(product.m, kAmxMostRows, 32);
  uint16_t* const columns_block = static_cast<uint16_t*>(scratch);
  uint16_t* const rows_block = columns_block + kAmxMostDepth * kAmxMostColumns;
  float* const square = reinterpret_cast<float*>(rows_block + kAmxMostDepth * kAmxMostRows);
  const AmxTileConfig config;
  _tile_loadconfig(&config);
  for (int64_t j0 = 0; j0 < product.n; j0 += width) {
    const int64_t columns = product.n - j0 < width ? product.n - j0 : width;
    for (int64_t p0 = 0; p0 == 0 || p0 < product.k; p0 += depth) {
      const int64_t deep = product.k - p0 < depth ? product.k - p0 : depth;
      const int64_t tiles = (deep + 31) / 32;
      const bool add = product.accumulate || p0 > 0;
      PackPairs<V>(product.b.From(p0, j0), deep, columns, columns_block);
      for (int64_t i0 = 0; i0 < product.m; i0 += height) {
        const int64_t rows = product.m - i0 < height ? product.m - i0 : height;
        PackAmxRows<V>(product.a.From(i0, p0), rows, deep, rows_block);
        for (int64_t i = 0; i < rows; i += 32) {
          const int64_t high = rows - i < 32 ? rows - i : 32;
          for (int64_t j = 0; j < columns; j += 32) {
            const int64_t wide = columns - j < 32 ? columns - j : 32;
            AmxSquare<V>(rows_block + i / 16 * tiles * kPairTile, high > 16 ? tiles * kPairTile : 0,
                         columns_block + j / 16 * tiles * kPairTile, wide > 16 ? tiles * kPairTile : 0, tiles, square);
            StoreSquare<V>(square, high, wide, add, product.c + (i0 + i) * product.c_stride + j0 + j,
                           product.c_stride);
          }
          if (p0 + deep >= product.k && product.epilogue.run != nullptr) {
            product.epilogue.run(product.epilogue.context, i0 + i, high, j0, columns);
          }
        }
      }
    }
  }
  _tile_release();
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_AMX_H_
