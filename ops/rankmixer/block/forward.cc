#include "ops/rankmixer/block/forward.h"

#include <algorithm>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/scratch.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

constexpr int64_t kMostRows = 256;   // of a tile: enough to read the weights for
constexpr int64_t kLeastRows = 32;

struct Tile {
  float* s;      // [rows, dim]
  float* sum;    // [rows, dim]
  float* inner;  // [rows, inner]; its first part becomes the hidden units
  int64_t dim_stride, inner_stride;
  int64_t bytes;

  Tile(const BlockSpec& spec, int64_t rows, void* memory)
      : dim_stride(TileStride(spec.dim)), inner_stride(TileStride(spec.inner)) {
    Carver carver(memory);
    s = carver.Array<float>(rows * dim_stride);
    sum = carver.Array<float>(rows * dim_stride);
    inner = carver.Array<float>(rows * inner_stride);
    bytes = carver.bytes();
  }
};

// What the first product's epilogue needs to make hidden units of its numbers.
struct Hidden {
  const Block& block;
  const Tile& tile;
  void* kept;
  bool stream;
  int64_t token, row;

  static void Activate(void* context, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const Hidden& hidden = *static_cast<const Hidden*>(context);
    const BlockSpec& spec = hidden.block.spec;
    const float* const bias = hidden.block.inputs.b1 + hidden.token * spec.inner;
    for (int64_t i = row; i < row + rows; ++i) {
      float* const numbers = hidden.tile.inner + i * hidden.tile.inner_stride + column;
      void* const kept = hidden.kept == nullptr ? nullptr : At(hidden.kept, spec.type, i * spec.inner + column);
      hidden.block.kernels.activate(spec.activation, numbers, bias + column, columns,
                                    DropoutRow(spec, hidden.token, hidden.row + i), column, numbers, kept, spec.type,
                                    hidden.stream);
    }
  }

  void Swiglu(int64_t rows) const {
    const BlockSpec& spec = block.spec;
    const float* const bias = block.inputs.b1 + token * spec.inner;
    for (int64_t i = 0; i < rows; ++i) {
      float* const numbers = tile.inner + i * tile.inner_stride;
      void* const to = kept == nullptr ? nullptr : At(kept, spec.type, i * spec.inner);
      block.kernels.swiglu(numbers, Number::kFloat32, bias, spec.hidden, DropoutRow(spec, token, row + i), numbers, to,
                           spec.type);
    }
  }
};

}  // namespace

MatrixView Block::w1(int64_t token, bool transposed) const {
  return {At(inputs.w1, spec.type, token * spec.dim * spec.inner), spec.inner, spec.type, transposed};
}

MatrixView Block::w2(int64_t token, bool transposed) const {
  return {At(inputs.w2, spec.type, token * spec.hidden * spec.dim), spec.dim, spec.type, transposed};
}

Moments Block::NetworkMoments(const float* u) const {
  return spec.norm == Norm::kPostLayer ? kernels.layer_moments(u, spec.dim, spec.epsilon)
                                       : kernels.rms_moments(u, spec.dim, spec.epsilon);
}

void Block::NetworkInput(const float* u, const Moments& moments, float* s) const {
  kernels.normalize(u, spec.dim, moments, network_gamma(), spec.norm == Norm::kPostLayer ? inputs.beta1 : nullptr, s);
}

void ForwardTile(const Block& block, int64_t token, int64_t row, int64_t rows, const TileOutputs& outputs) {
  const BlockSpec& spec = block.spec;
  const Kernels& kernels = block.kernels;
  const bool post = spec.norm == Norm::kPostLayer;
  const Tile tile(spec, rows, Scratch::OfThread(Scratch::kTile).Get(Tile(spec, rows, nullptr).bytes));
  const float* const b2 = block.inputs.b2 + token * spec.dim;
  for (int64_t i = 0; i < rows; ++i) {
    float* const s = tile.s + i * tile.dim_stride;
    float* const sum = tile.sum + i * tile.dim_stride;
    const float* const u = block.source(token, row + i);
    block.NetworkInput(u, block.NetworkMoments(u), s);
    std::copy_n(post ? s : u, spec.dim, sum);
    if (!post && outputs.sum != nullptr) {
      kernels.narrow(u, spec.dim, At(outputs.sum, spec.type, i * spec.dim), spec.type, outputs.stream_sum);
    }
    kernels.add(b2, spec.dim, sum);
  }

  Hidden hidden = {block, tile, outputs.inner, outputs.stream_inner, token, row};
  const bool swiglu = spec.activation == Activation::kSwiglu;
  Product first = {rows, spec.inner, spec.dim, {tile.s, tile.dim_stride}, block.w1(token, false), tile.inner,
                   tile.inner_stride};
  first.factors = block.factors();
  if (!swiglu) first.epilogue = {&Hidden::Activate, &hidden};
  Multiply(kernels, first);
  if (swiglu) hidden.Swiglu(rows);

  Product second = {rows, spec.dim, spec.hidden, {tile.inner, tile.inner_stride}, block.w2(token, false), tile.sum,
                    tile.dim_stride};
  second.factors = block.factors();
  second.accumulate = true;
  Multiply(kernels, second);

  for (int64_t i = 0; i < rows; ++i) {
    float* const sum = tile.sum + i * tile.dim_stride;
    if (outputs.y != nullptr && i + kRowsAhead < rows && !outputs.stream_y) {
      PrefetchToWrite(At(outputs.y, spec.type, (i + kRowsAhead) * outputs.y_stride), spec.dim * SizeOf(spec.type));
    }
    if (post) {
      if (outputs.sum != nullptr) {
        kernels.narrow(sum, spec.dim, At(outputs.sum, spec.type, i * spec.dim), spec.type, outputs.stream_sum);
      }
      if (outputs.y == nullptr) continue;
      kernels.normalize(sum, spec.dim, kernels.layer_moments(sum, spec.dim, spec.epsilon), block.inputs.gamma2,
                        block.inputs.beta2, sum);
    }
    if (outputs.y != nullptr) {
      kernels.narrow(sum, spec.dim, At(outputs.y, spec.type, i * outputs.y_stride), spec.type, outputs.stream_y);
    }
  }
  FinishStreams();
}

void FindSources(const Block& block, const Executor& executor) {
  const BlockSpec& spec = block.spec;
  const Kernels& kernels = block.kernels;
  const bool large = IsLarge(SourcesSize(spec), Number::kFloat32);
  const int64_t numbers = spec.tokens * spec.dim;
  RunParts(executor, spec.batch, PartSize(spec.batch, executor.threads(), 2, 8), [&](int64_t first, int64_t count) {
    // What is mixed, [tokens, dim], and one source.
    float* const mixed = static_cast<float*>(Scratch::OfThread(Scratch::kTile).Get((numbers + spec.dim) * 4));
    float* const u = mixed + numbers;
    for (int64_t row = first; row < first + count; ++row) {
      const void* const x = At(block.inputs.x, spec.type, row * numbers);
      kernels.widen(x, spec.type, numbers, mixed);
      for (int64_t token = 0; token < spec.tokens && spec.norm == Norm::kPreRms; ++token) {
        float* const n = mixed + token * spec.dim;
        kernels.normalize(n, spec.dim, kernels.rms_moments(n, spec.dim, spec.epsilon), block.inputs.gamma1, nullptr, n);
      }
      for (int64_t token = 0; token < spec.tokens; ++token) {
        kernels.gather_heads(mixed + token * spec.head(), spec.dim, spec.tokens, spec.head(), u);
        kernels.add_wide(At(x, spec.type, token * spec.dim), spec.type, spec.dim, u);
        kernels.narrow(u, spec.dim, block.source(token, row), Number::kFloat32, large);
      }
    }
    FinishStreams();
  });
}

void Forward(const BlockSpec& spec, const BlockInputs& inputs, const BlockOutputs& outputs, const Kernels& kernels,
             const Executor& executor, float* sources) {
  if (spec.batch == 0) return;
  const Block block = {spec, inputs, kernels, sources};
  FindSources(block, executor);
  // As many rows as are worth a tile, unless threads would have nothing to do.
  int64_t parts = (spec.batch + kMostRows - 1) / kMostRows;
  const int64_t wanted = executor.threads() == 1 ? 1 : (2 * executor.threads() + spec.tokens - 1) / spec.tokens;
  parts = std::max(parts, std::min(wanted, (spec.batch + kLeastRows - 1) / kLeastRows));
  const int64_t rows = (spec.batch + parts - 1) / parts;
  parts = (spec.batch + rows - 1) / rows;
  const bool large = IsLarge(spec.batch * spec.tokens * spec.dim, spec.type);
  executor.Run(spec.tokens * parts, [&](int64_t task) {
    const int64_t token = task / parts, row = task % parts * rows;
    const int64_t kept = token * spec.batch + row;
    const TileOutputs tile = {
        At(outputs.y, spec.type, (row * spec.tokens + token) * spec.dim), spec.tokens * spec.dim,
        outputs.kept_inner == nullptr ? nullptr : At(outputs.kept_inner, spec.type, kept * spec.inner),
        outputs.kept_sum == nullptr ? nullptr : At(outputs.kept_sum, spec.type, kept * spec.dim),
        large, IsLarge(spec.batch * spec.tokens * spec.inner, spec.type), large};
    ForwardTile(block, token, row, std::min(rows, spec.batch - row), tile);
  });
}

}  // namespace rankmixer
}  // namespace ps_cluster
