// Copies parts of matrices as pairs of bfloat16 numbers, two rows of which lie side by side: what instructions that
// multiply and add pairs read.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_PAIRS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_PAIRS_H_

#include <cstdint>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/gemm_pack.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

constexpr int64_t kPairTile = 512;  // numbers of a tile: 32 rows of 16 columns, as 16 rows of 16 pairs

// Numbers of a row of any type as bits of bfloat16, up to `count` and then zeros.
template <class V>
PS_CLUSTER_INLINE typename V::H LoadBits(const MatrixView& from, int64_t at, int64_t count) {
  if (from.type != Number::kBfloat16) return V::ToBfloat16(LoadAs<V>(from.data, from.type, at, count));
  const uint16_t* const data = static_cast<const uint16_t*>(from.data) + at;
  return count >= V::kLanes ? V::LoadShort(data) : V::LoadShortPart(data, static_cast<int>(count));
}

// Up to 32 numbers of a row of a matrix as it lies in memory, from column `column` on; zeros beyond `count`.
template <class V>
void StoreRowPart(const MatrixView& from, int64_t row, int64_t column, int64_t count, uint16_t* to) {
  const int64_t at = row * from.stride + column;
  V::StoreShort(to, LoadBits<V>(from, at, count));
  V::StoreShort(to + 16, count > 16 ? LoadBits<V>(from, at + 16, count - 16) : typename V::H{});
}

// Transposes 16 x 16 words of 32 bits in place.
template <class V>
void TransposeWords(uint16_t* tile) {
  typename V::F square[16];
  for (int r = 0; r < 16; ++r) __builtin_memcpy(&square[r], tile + r * 32, 64);
  Transpose<V>(square);
  for (int r = 0; r < 16; ++r) __builtin_memcpy(tile + r * 32, &square[r], 64);
}

// Pairs of rows p, p + 1 interleaved: 16 rows of 16 pairs from 32 rows of 16 columns of a matrix as it lies in memory.
template <class V>
void StorePairs(const MatrixView& from, int64_t row, int64_t rows, int64_t column, int64_t columns, uint16_t* tile) {
  using H = typename V::H;
  using U = typename V::U;
  for (int64_t p = 0; p < 32; p += 2) {
    const int64_t at = (row + p) * from.stride + column;
    const H even = p < rows ? LoadBits<V>(from, at, columns) : H{};
    const H odd = p + 1 < rows ? LoadBits<V>(from, at + from.stride, columns) : H{};
    const U low = __builtin_convertvector(even, U), high = __builtin_convertvector(odd, U);
    const U pair = low | (high << 16);
    __builtin_memcpy(tile + p * 16, &pair, 64);
  }
}

// b [depth, columns] as tiles of 16 rows of 16 pairs: those of 16 columns follow each other along the depth.
template <class V>
void PackPairs(const MatrixView& b, int64_t depth, int64_t columns, uint16_t* to) {
  const MatrixView plain = {b.data, b.stride, b.type, false};
  for (int64_t j = 0; j < columns; j += 16) {
    const int64_t wide = columns - j < 16 ? columns - j : 16;
    for (int64_t p = 0; p < depth; p += 32, to += kPairTile) {
      const int64_t deep = depth - p < 32 ? depth - p : 32;
      if (!b.transposed) {
        StorePairs<V>(plain, p, deep, j, wide, to);
        continue;
      }
      for (int64_t r = 0; r < 16; ++r) {
        if (r < wide) {
          StoreRowPart<V>(plain, j + r, p, deep, to + r * 32);
        } else {
          __builtin_memset(to + r * 32, 0, 64);
        }
      }
      TransposeWords<V>(to);
    }
  }
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_PACK_PAIRS_H_
