// Tiles of a product's operands in shared memory: how they come there, and how the tensor cores' operands are read from there.
//
// A tile has 128 rows of A (or columns of B, which is the same with the other index) and 64 bytes of the summed dimension.
// It keeps the order it has in global memory: along the summed dimension where that is dense, else across it.
// Rows are padded so that neither a fragment's 32 lanes nor ldmatrix's 8 rows meet in a bank.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_TILE_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_TILE_CUH_

#include "ops/rankmixer_cuda/tensor_core.cuh"

namespace ps_cluster::rankmixer_cuda {

// Which index of an operand is dense in memory: the summed one, or the one of the result's rows (A) or columns (B).
enum class Dense { kSummed, kOuter };

// An operand of a product per token; value (outer, summed) lies at token * token_stride + one + the other * stride.
template <typename T>
struct Operand {
  const T* data;
  int64_t token_stride, stride;
  bool chunks;  // whether every row begins at a multiple of 16 bytes and has a number of bytes that is one
};

constexpr int kTileOuter = 128;
template <typename T>
constexpr int kTileSummed = 64 / sizeof(T);

// Which of an operand's outer indices stands at index i of its tile, a multiple of 8 and the 7 after it going together.
// With pairs, columns of two halves of B alternate, 8 of the one and 8 of the other, so that a thread gets both.
template <bool paired>
struct Outer {
  int64_t first;   // of the tile
  int64_t extent;  // end of the indices; with pairs of each half

  __device__ int64_t unit(int i) const { return paired ? first + i / 16 * 8 + i % 8 : first + i; }
  __device__ int64_t index(int i) const { return paired && i / 8 % 2 == 1 ? unit(i) + extent : unit(i); }
};

template <typename T, Dense dense>
struct Tile {
  static constexpr int kSummed = kTileSummed<T>;
  // Values from one row to the next: 80 bytes; 16 bytes more than a row of 16-bit values, 32 more than one of float32.
  static constexpr int kPitch = dense == Dense::kSummed ? 80 / sizeof(T) : kTileOuter + 8;
  static constexpr int kRows = dense == Dense::kSummed ? kTileOuter : kSummed;
  static constexpr int kBytes = kRows * kPitch * sizeof(T);

  // Starts the copy of the tile that begins at index `k` of the summed dimension, of length `summed`; what lies
  // outside becomes zeros. `data` is the token's part of the operand.
  template <bool paired>
  __device__ static void copy(const Operand<T>& operand, const T* data, const Outer<paired>& outer, int64_t k,
                              int64_t summed, T* tile) {
    constexpr int kEach = kChunk<T>;
    constexpr int kChunksInRow = (dense == Dense::kSummed ? kSummed : kTileOuter) / kEach;
    static_assert(kRows * kChunksInRow % kThreads == 0, "each thread copies the same number of chunks");
#pragma unroll
    for (int i = 0; i < kRows * kChunksInRow / kThreads; ++i) {
      const int chunk = threadIdx.x + i * kThreads;
      const int row = chunk / kChunksInRow, column = chunk % kChunksInRow * kEach;
      T* to = tile + row * kPitch + column;
      if constexpr (dense == Dense::kSummed) {
        const bool there = outer.unit(row) < outer.extent && k + column < summed;
        const T* from = data + outer.index(row) * operand.stride + k + column;
        if (operand.chunks) {
          copy_chunk(to, there ? from : data, there);
        } else {
          copy_values(from, there ? min(static_cast<int64_t>(kEach), summed - k - column) : 0, to);
        }
      } else {
        const bool there = outer.unit(column) < outer.extent && k + row < summed;
        const T* from = data + (k + row) * operand.stride + outer.index(column);
        if (operand.chunks) {
          copy_chunk(to, there ? from : data, there);
        } else {
          copy_values(from, there ? min(static_cast<int64_t>(kEach), outer.extent - outer.unit(column)) : 0, to);
        }
      }
    }
  }

  __device__ static const T& at(const T* tile, int outer, int summed) {
    return dense == Dense::kSummed ? tile[outer * kPitch + summed] : tile[summed * kPitch + outer];
  }

 private:
  __device__ static void copy_values(const T* from, int64_t there, T* to) {
#pragma unroll
    for (int i = 0; i < kChunk<T>; ++i) to[i] = i < there ? from[i] : T{};
  }
};

// Lanes' shares of a piece of A [16, k] or, for B, of two neighbouring pieces [k, 8], k a product's depth.
template <typename T, Dense dense>
struct Fragments {
  using Source = Tile<T, dense>;
  static constexpr int kDepth = 16;

  __device__ static void a(const T* tile, int outer, int summed, uint32_t (&words)[4]) {
    const int l = lane();
    if constexpr (dense == Dense::kSummed) {
      load_matrices<false>(&Source::at(tile, outer + l % 16, summed + l / 16 * 8), words);
    } else {
      load_matrices<true>(&Source::at(tile, outer + l / 8 % 2 * 8, summed + l % 8 + l / 16 * 8), words);
    }
  }

  __device__ static void b(const T* tile, int outer, int summed, uint32_t (&first)[2], uint32_t (&second)[2]) {
    const int l = lane();
    uint32_t words[4];
    if constexpr (dense == Dense::kSummed) {
      load_matrices<false>(&Source::at(tile, outer + l % 8 + l / 16 * 8, summed + l / 8 % 2 * 8), words);
    } else {
      load_matrices<true>(&Source::at(tile, outer + l / 16 * 8, summed + l % 16), words);
    }
    first[0] = words[0], first[1] = words[1], second[0] = words[2], second[1] = words[3];
  }
};

template <Dense dense>
struct Fragments<float, dense> {
  using Source = Tile<float, dense>;
  static constexpr int kDepth = 8;

  __device__ static void a(const float* tile, int outer, int summed, float (&values)[4]) {
    const int row = outer + lane() / 4, k = summed + lane() % 4;
    values[0] = Source::at(tile, row, k), values[1] = Source::at(tile, row + 8, k);
    values[2] = Source::at(tile, row, k + 4), values[3] = Source::at(tile, row + 8, k + 4);
  }

  __device__ static void b(const float* tile, int outer, int summed, float (&first)[2], float (&second)[2]) {
    const int column = outer + lane() / 4, k = summed + lane() % 4;
    first[0] = Source::at(tile, column, k), first[1] = Source::at(tile, column, k + 4);
    second[0] = Source::at(tile, column + 8, k), second[1] = Source::at(tile, column + 8, k + 4);
  }
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_TILE_CUH_
