// A matrix product per token on the tensor cores, its result handed to an epilogue by way of shared memory.
//
// Block: 128 x 128 of the result, 8 warps of 64 x 32 each; three stages of tiles in shared memory, filled by asynchronous
// copies while the tensor cores work on an earlier one. The sum runs in order within a block, so its bits depend on nothing
// but the operands.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_PRODUCT_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_PRODUCT_CUH_

#include "ops/rankmixer_cuda/tile.cuh"

namespace ps_cluster::rankmixer_cuda {

constexpr int kStages = 3;
constexpr int kWarpsDown = 2, kWarpsAcross = 4;
constexpr int kDown = kTileOuter / kWarpsDown / 16;     // of 16 rows, per warp
constexpr int kAcross = kTileOuter / kWarpsAcross / 8;  // of 8 columns, per warp
static_assert(kWarpsDown * kWarpsAcross == kWarps);

// How operands go through the tensor cores.
enum class Precision {
  kOnce,      // 16-bit operands as they are, float32 rounded to TF32
  kSplitTf32  // float32 as the sum of two TF32 numbers: three products, the smallest part of the fourth left out
};

// result [rows, columns] = A [rows, summed] B [summed, columns], for each token.
struct ProductShape {
  int64_t rows, columns, summed;  // with a paired epilogue, columns of each half
};

// A thread's part of the result: of 16 x 8 values each, laid out as tensor_core.cuh says.
struct Accumulators {
  float of[kDown][kAcross][4];
};

constexpr int kPiece = 8;  // neighbouring values of a row that an epilogue gets at once

// Where a piece lies in the result; `count` of its values are inside, 0 or fewer: none.
struct Place {
  int64_t token, row, unit;
  int count;
};

// Rows of the result on their way through shared memory: half of a block's, so that they fit where the tiles were. The
// padding keeps a fragment's lanes out of each other's banks.
constexpr int kHalfRows = kTileOuter / kWarpsDown;
constexpr int kResultPitch = kTileOuter + 8;
constexpr size_t kResultBytes = kHalfRows * kResultPitch * sizeof(float);

__device__ inline void load_result(const float* from, float (&values)[kPiece]) {
#pragma unroll
  for (int i = 0; i < kPiece; i += 4) {
    float chunk[4];
    load<4>(from + i, chunk);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[i + e] = chunk[e];
  }
}

// Gives the epilogue all pieces of the block, the pieces of a row to neighbouring lanes; all lanes take part each time.
template <bool paired, typename Epilogue>
__device__ inline void hand_over(int64_t token, const Outer<false>& rows, const Outer<paired>& columns,
                                 const Accumulators& sums, float* shared, const Epilogue& epilogue) {
  constexpr int kWidth = paired ? 2 * kPiece : kPiece;  // of tile columns per piece
  constexpr int kPiecesInRow = kTileOuter / kWidth;
#pragma unroll 1
  for (int half = 0; half < kWarpsDown; ++half) {
    __syncthreads();  // what was there has been read
    if (warp() / kWarpsAcross == half) {
      float* const to = shared + lane() / 4 * kResultPitch + warp() % kWarpsAcross * (kAcross * 8) + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          const float above[2] = {sums.of[i][j][0], sums.of[i][j][1]};
          const float below[2] = {sums.of[i][j][2], sums.of[i][j][3]};
          store<2>(above, to + i * 16 * kResultPitch + j * 8);
          store<2>(below, to + (i * 16 + 8) * kResultPitch + j * 8);
        }
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int piece = threadIdx.x; piece < kHalfRows * kPiecesInRow; piece += kThreads) {
      const int row = piece / kPiecesInRow, column = piece % kPiecesInRow * kWidth;
      Place at{token, rows.first + half * kHalfRows + row, columns.unit(column), kPiece};
      if (columns.extent - at.unit < kPiece) at.count = static_cast<int>(columns.extent - at.unit);
      if (at.row >= rows.extent) at.count = 0;
      float values[kPiece];
      load_result(shared + row * kResultPitch + column, values);
      if constexpr (paired) {
        float second[kPiece];
        load_result(shared + row * kResultPitch + column + kPiece, second);
        epilogue(at, values, second);
      } else {
        epilogue(at, values);
      }
    }
  }
}

template <typename T, Dense dense_a, Dense dense_b, Precision precision>
__device__ inline void multiply_tiles(const T* tile_a, const T* tile_b, Accumulators* sums) {
  using A = Fragments<T, dense_a>;
  using B = Fragments<T, dense_b>;
  const int first_row = warp() / kWarpsAcross * (kDown * 16);
  const int first_column = warp() % kWarpsAcross * (kAcross * 8);
#pragma unroll
  for (int k = 0; k < kTileSummed<T>; k += A::kDepth) {
    if constexpr (sizeof(T) == 2) {
      uint32_t b[kAcross][2];
#pragma unroll
      for (int j = 0; j < kAcross; j += 2) B::b(tile_b, first_column + j * 8, k, b[j], b[j + 1]);
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        uint32_t a[4];
        A::a(tile_a, first_row + i * 16, k, a);
#pragma unroll
        for (int j = 0; j < kAcross; ++j) multiply_add(sums->of[i][j], a, b[j], T{});
      }
    } else {
      float b[kAcross][2];
      uint32_t b_big[kAcross][2], b_small[kAcross][2];
#pragma unroll
      for (int j = 0; j < kAcross; j += 2) B::b(tile_b, first_column + j * 8, k, b[j], b[j + 1]);
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          b_big[j][e] = to_tf32(b[j][e]);
          if constexpr (precision == Precision::kSplitTf32) {
            b_small[j][e] = to_tf32(b[j][e] - __uint_as_float(b_big[j][e]));
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        float a[4];
        uint32_t a_big[4], a_small[4];
        A::a(tile_a, first_row + i * 16, k, a);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          a_big[e] = to_tf32(a[e]);
          if constexpr (precision == Precision::kSplitTf32) a_small[e] = to_tf32(a[e] - __uint_as_float(a_big[e]));
        }
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          if constexpr (precision == Precision::kSplitTf32) {
            // The small ones first: they are then not lost one by one.
            multiply_add(sums->of[i][j], a_small, b_big[j], T{});
            multiply_add(sums->of[i][j], a_big, b_small[j], T{});
          }
          multiply_add(sums->of[i][j], a_big, b_big[j], T{});
        }
      }
    }
  }
}

template <typename T, Dense dense_a, Dense dense_b>
constexpr int kStageBytes = Tile<T, dense_a>::kBytes + Tile<T, dense_b>::kBytes;
static_assert(kStages * kStageBytes<float, Dense::kOuter, Dense::kOuter> >= kResultBytes);

// Blocks: (tiles of the result, columns fastest), 1, tokens.
template <typename T, Dense dense_a, Dense dense_b, Precision precision, typename Epilogue>
__global__ void __launch_bounds__(kThreads, 2)
    product_kernel(ProductShape shape, Operand<T> a, Operand<T> b, Epilogue epilogue) {
  using TileA = Tile<T, dense_a>;
  using TileB = Tile<T, dense_b>;
  constexpr bool kPaired = Epilogue::kPaired;
  PS_CLUSTER_SHARED(shared);
  const int64_t across = blocks_for(shape.columns, kPaired ? kTileOuter / 2 : kTileOuter);
  const Outer<false> rows{static_cast<int64_t>(blockIdx.x / across) * kTileOuter, shape.rows};
  const Outer<kPaired> columns{static_cast<int64_t>(blockIdx.x % across) * (kPaired ? kTileOuter / 2 : kTileOuter),
                               shape.columns};
  const int64_t token = blockIdx.z;
  const T* data_a = a.data + token * a.token_stride;
  const T* data_b = b.data + token * b.token_stride;
  const auto tile_a = [&](int stage) {
    return reinterpret_cast<T*>(shared + stage * kStageBytes<T, dense_a, dense_b>);
  };
  const auto tile_b = [&](int stage) { return tile_a(stage) + TileA::kBytes / sizeof(T); };

  const int steps = static_cast<int>(blocks_for(shape.summed, kTileSummed<T>));
  int started = 0, filled = 0;  // steps whose copies were started; the stage of the next one's
  const auto start = [&] {
    if (started < steps) {
      const int64_t k = static_cast<int64_t>(started) * kTileSummed<T>;
      TileA::copy(a, data_a, rows, k, shape.summed, tile_a(filled));
      TileB::copy(b, data_b, columns, k, shape.summed, tile_b(filled));
    }
    commit_copies();  // a group per step, empty or not, so that their number tells the step
    ++started;
    filled = filled == kStages - 1 ? 0 : filled + 1;
  };
  Accumulators sums = {};
  for (int i = 0; i < kStages - 1; ++i) start();
  int stage = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 2>();
    // All threads' copies of this step are there, and all have done with the step before, whose stage is filled next.
    __syncthreads();
    start();
    multiply_tiles<T, dense_a, dense_b, precision>(tile_a(stage), tile_b(stage), &sums);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  wait_for_copies<0>();
  hand_over(token, rows, columns, sums, reinterpret_cast<float*>(shared), epilogue);
}

// Starts the product for `tokens` tokens; returns a code of the CUDA runtime.
template <Dense dense_a, Dense dense_b, Precision precision, typename T, typename Epilogue>
int product(const ProductShape& shape, int tokens, const Operand<T>& a, const Operand<T>& b, const Epilogue& epilogue,
            Stream stream) {
  const int64_t down = blocks_for(shape.rows, kTileOuter);
  const int64_t across = blocks_for(shape.columns, Epilogue::kPaired ? kTileOuter / 2 : kTileOuter);
  return launch(product_kernel<T, dense_a, dense_b, precision, Epilogue>, down * across, 1, tokens,
                kStages * kStageBytes<T, dense_a, dense_b>, stream, shape, a, b, epilogue);
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_PRODUCT_CUH_
