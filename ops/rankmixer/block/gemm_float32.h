// The product in float32: blocks of b that fit the second-level cache, tiles of c that fit the registers.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_FLOAT32_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_FLOAT32_H_

#include <cstdint>
#include <utility>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/gemm_pack.h"
#include "ops/rankmixer/block/simd.h"

namespace ps_cluster {
namespace rankmixer {

constexpr int64_t kMostDepth = 512;             // of a block: the rows of a that are in use stay in the first level
constexpr int64_t kBlockNumbers = 128 * 1024;   // in a block of b, which stays in the second level

// What becomes of a tile: it replaces c, in the caches or past them, or is added to it.
enum class StoreKind { kReplace, kStream, kAdd };

// Packed rows of a: column p of up to 16 rows is at p * kPackedRows.
constexpr int64_t kPackedRows = 16;
constexpr int64_t kPackedGroups = 8;  // of up to kTileRows rows, packed at a time

// Bytes from the first of seven rows to the one with this index, as sums a processor's addresses can hold.
template <class V, int kIndex>
int64_t RowOffset(int64_t row, int64_t row3, int64_t row5) {
  if constexpr (kIndex == 3) return row3;
  if constexpr (kIndex == 5) return row5;
  if constexpr (kIndex == 6) return 2 * row3;
  return kIndex * row;
}

// c [rows, columns] from `depth` columns of a and a panel of b; `columns` is up to kVectors vectors, of which all but
// the last are full. a's rows are `stride` numbers apart or, kPacked, packed. b's second vectors follow the first ones
// or, where the processor multiplies pairs (a number is then one of them), make a panel of their own behind the first.
template <class V, int kVectors, bool kPacked, int... kRow>
void Tile(std::integer_sequence<int, kRow...>, const float* a, int64_t stride, const float* b, int64_t depth, float* c,
          int64_t c_stride, int columns, StoreKind kind) {
  using F = typename V::F;
  constexpr int kRows = sizeof...(kRow);
  constexpr int kLanes = V::kLanes;
  const int64_t second_panel = V::kPairs ? depth * kLanes : kLanes;
  F first[kRows], second[kRows];
  ((first[kRow] = F{}, second[kRow] = F{}), ...);
  if (kind != StoreKind::kStream) {
    (__builtin_prefetch(c + kRow * c_stride, 1), ...);
    if constexpr (kVectors > 1) (__builtin_prefetch(c + kRow * c_stride + kLanes, 1), ...);
  }
  const int64_t row = stride * static_cast<int64_t>(sizeof(float)), row3 = 3 * row, row5 = 5 * row;
  const char* low = reinterpret_cast<const char*>(a);
  const char* high = low + 7 * row;
  for (int64_t p = 0; p < depth; ++p, b += V::kPairs ? kLanes : 2 * kLanes) {
    const F b0 = V::Load(b);
    F b1;
    if constexpr (kVectors > 1) b1 = V::Load(b + second_panel);
    (([&] {
       float number;
       if constexpr (kPacked) {
         number = a[kRow];
       } else {
         __builtin_memcpy(&number, (kRow < 7 ? low : high) + RowOffset<V, kRow % 7>(row, row3, row5), sizeof(number));
       }
       first[kRow] = V::MultiplyAdd(V::Set(number), b0, first[kRow]);
       if constexpr (kVectors > 1) second[kRow] = V::MultiplyAdd(V::Set(number), b1, second[kRow]);
     }()),
     ...);
    if constexpr (kPacked) {
      a += kPackedRows;
    } else {
      low += sizeof(float);
      high += sizeof(float);
    }
  }
  const int rest = columns - (kVectors - 1) * kLanes;
  auto finish = [&](float* to, F sum, int count) {
    if (kind == StoreKind::kAdd) sum = sum + (count == kLanes ? V::Load(to) : V::LoadPart(to, count));
    if (count < kLanes) {
      V::StorePart(to, sum, count);
    } else if (kind == StoreKind::kStream) {
      V::Stream(to, sum);
    } else {
      V::Store(to, sum);
    }
  };
  if constexpr (kVectors > 1) {
    (finish(c + kRow * c_stride, first[kRow], kLanes), ...);
    (finish(c + kRow * c_stride + kLanes, second[kRow], rest), ...);
  } else {
    (finish(c + kRow * c_stride, first[kRow], rest), ...);
  }
}

template <class V, int kRows>
void TileOfRows(const float* a, int64_t stride, bool packed, const float* b, int64_t depth, float* c, int64_t c_stride,
                int columns, StoreKind kind) {
  constexpr auto rows = std::make_integer_sequence<int, kRows>();
  if (columns > V::kLanes) {
    packed ? Tile<V, 2, true>(rows, a, stride, b, depth, c, c_stride, columns, kind)
           : Tile<V, 2, false>(rows, a, stride, b, depth, c, c_stride, columns, kind);
  } else {
    packed ? Tile<V, 1, true>(rows, a, stride, b, depth, c, c_stride, columns, kind)
           : Tile<V, 1, false>(rows, a, stride, b, depth, c, c_stride, columns, kind);
  }
}

using TileFunction = void (*)(const float* a, int64_t stride, bool packed, const float* b, int64_t depth, float* c,
                              int64_t c_stride, int columns, StoreKind kind);

template <class V>
struct TileTable {
  TileFunction of_rows[V::kTileRows + 1];

  template <int... kRows>
  static constexpr TileTable Make(std::integer_sequence<int, kRows...>) {
    return {{nullptr, &TileOfRows<V, kRows + 1>...}};
  }
};

template <class V>
constexpr TileTable<V> kTiles = TileTable<V>::Make(std::make_integer_sequence<int, V::kTileRows>());

// Numbers of scratch that MultiplyFloat32 needs: a block of b, and groups of rows of a.
constexpr int64_t kFloat32Scratch = kBlockNumbers + (64 + kPackedGroups * kPackedRows) * kMostDepth;

// Packs groups of `height` rows of a [rows, depth].
template <class V>
void PackRows(const MatrixView& a, int64_t rows, int64_t depth, int64_t height, float* to) {
  if (!a.transposed) {
    for (int64_t i = 0; i < rows; i += height, to += depth * kPackedRows) {
      PackTransposed<V>(a.From(i, 0), rows - i < height ? rows - i : height, depth, to, kPackedRows);
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p, to += kPackedRows) {
    for (int64_t i = 0; i < rows; i += height) {
      const int64_t count = rows - i < height ? rows - i : height;
      float* const group = to + i / height * depth * kPackedRows;
      for (int64_t v = 0; v < count; v += V::kLanes) {
        V::Store(group + v, LoadAs<V>(a.data, a.type, p * a.stride + i + v, count - v));
      }
    }
  }
}

template <class V>
void MultiplyFloat32(const Product& product, float* scratch) {
  constexpr int64_t kPanel = 2 * V::kLanes;
  const int64_t depth = EvenPart<V>(product.k, kMostDepth, 1);
  const int64_t most_columns = kBlockNumbers / (depth < 32 ? 32 : depth) / kPanel * kPanel;
  const int64_t width = EvenPart<V>(product.n, most_columns, kPanel);
  const int64_t height = EvenPart<V>(product.m, V::kTileRows, 1);
  const bool packed = product.a.transposed || product.a.type != Number::kFloat32;
  const bool stream = product.stream && depth >= product.k && product.c_stride % V::kLanes == 0 &&
                      CanStream<V>(product.c, Number::kFloat32);
  float* const block = scratch;
  float* const groups = scratch + kBlockNumbers + 64 * kMostDepth;
  for (int64_t j0 = 0; j0 < product.n; j0 += width) {
    const int64_t columns = product.n - j0 < width ? product.n - j0 : width;
    for (int64_t p0 = 0; p0 == 0 || p0 < product.k; p0 += depth) {
      const int64_t deep = product.k - p0 < depth ? product.k - p0 : depth;
      const StoreKind kind = product.accumulate || p0 > 0 ? StoreKind::kAdd
                             : stream                     ? StoreKind::kStream
                                                          : StoreKind::kReplace;
      PackPanels<V>(product.b.From(p0, j0), deep, columns, kPanel, block);
      for (int64_t i0 = 0; i0 < product.m; i0 += height) {
        const int64_t rows = product.m - i0 < height ? product.m - i0 : height;
        const MatrixView part = product.a.From(i0, p0);
        const float* a = static_cast<const float*>(part.data);
        if (packed) {
          const int64_t group = i0 / height % kPackedGroups;
          const int64_t left = product.m - i0, most = kPackedGroups * height;
          if (group == 0) PackRows<V>(part, left < most ? left : most, deep, height, groups);
          a = groups + group * deep * kPackedRows;
        }
        const TileFunction tile = kTiles<V>.of_rows[rows];
        float* const c = product.c + i0 * product.c_stride + j0;
        for (int64_t j = 0; j < columns; j += kPanel) {
          const int64_t wide = columns - j < kPanel ? columns - j : kPanel;
          tile(a, part.stride, packed, block + j * deep, deep, c + j, product.c_stride, static_cast<int>(wide), kind);
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

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_FLOAT32_H_
