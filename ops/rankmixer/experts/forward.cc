#include "ops/rankmixer/experts/forward.h"

#include <algorithm>

#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/scratch.h"
#include "ops/rankmixer/experts/expert.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

constexpr int64_t kWantedRows = 128;  // of an expert in a tile: enough to read its weights for
constexpr int64_t kChunkRows = 256;   // gathered at a time
constexpr int64_t kLeastRows = 64, kMostRows = 2048;  // of a tile

struct Tile {
  float* y;      // [rows, dim]
  float* s;      // [chunk, dim]
  float* z;      // [chunk, dim]
  float* inner;  // [chunk, inner]; its first part becomes the hidden units
  float* ones;   // [dim]
  int64_t dim_stride, inner_stride;
  int64_t bytes;

  Tile(const ExpertsSpec& spec, int64_t rows, void* memory)
      : dim_stride(TileStride(spec.dim)), inner_stride(TileStride(spec.inner)) {
    const int64_t chunk = std::min(rows, kChunkRows);
    Carver carver(memory);
    y = carver.Array<float>(rows * dim_stride);
    s = carver.Array<float>(chunk * dim_stride);
    z = carver.Array<float>(chunk * dim_stride);
    inner = carver.Array<float>(chunk * inner_stride);
    ones = carver.Array<float>(spec.dim);
    bytes = carver.bytes();
  }
};

// Adds the gated results of an expert's gathered rows to those rows of the tile, which begins with row `first`.
void AddExpert(const Expert& of, const int64_t* rows, int64_t count, int64_t first, const Tile& tile, void* kept) {
  const ExpertsSpec& spec = of.spec;
  of.Gather(of.inputs.tokens, rows, count, tile.s, tile.dim_stride);
  of.HiddenUnits(rows, count, tile.s, tile.dim_stride, tile.inner, tile.inner_stride, kept);
  for (int64_t i = 0; i < count; ++i) std::copy_n(of.b2(), spec.dim, tile.z + i * tile.dim_stride);
  Product second = {count, spec.dim, spec.hidden, {tile.inner, tile.inner_stride}, of.w2(false), tile.z,
                    tile.dim_stride};
  second.factors = of.factors();
  second.accumulate = true;
  Multiply(of.kernels, second);
  for (int64_t i = 0; i < count; ++i) {
    // y += gate * z: a norm of mean 0 whose scale is the gate and whose shift is y.
    float* const y = tile.y + (rows[i] - first) * tile.dim_stride;
    of.kernels.normalize(tile.z + i * tile.dim_stride, spec.dim, {0.0f, of.gate(rows[i])}, tile.ones, y, y);
  }
}

// Rows of a tile: more of them where the experts have few, unless threads would have nothing to do.
int64_t TileRows(const ExpertsSpec& spec, int64_t pairs, int64_t threads) {
  const int64_t all = spec.batch * spec.tokens * spec.experts;
  const int64_t most = std::clamp(kWantedRows * all / std::max<int64_t>(pairs, 1), kChunkRows, kMostRows);
  int64_t parts = (spec.batch + most - 1) / most;
  const int64_t wanted = threads == 1 ? 1 : (2 * threads + spec.tokens - 1) / spec.tokens;
  parts = std::max(parts, std::min(wanted, (spec.batch + kLeastRows - 1) / kLeastRows));
  return (spec.batch + parts - 1) / parts;
}

}  // namespace

void ForwardExperts(const ExpertsSpec& spec, const ExpertsInputs& inputs, const Pairs& pairs,
                    const ExpertsOutputs& outputs, const Kernels& kernels, const Executor& executor) {
  if (spec.batch == 0) return;
  const int64_t most = TileRows(spec, pairs.size(), executor.threads());
  const int64_t parts = (spec.batch + most - 1) / most;
  executor.Run(spec.tokens * parts, [&](int64_t task) {
    const int64_t token = task / parts, first = task % parts * most;
    const int64_t rows = std::min(most, spec.batch - first);
    const Tile tile(spec, rows, Scratch::OfThread(Scratch::kTile).Get(Tile(spec, rows, nullptr).bytes));
    std::fill_n(tile.y, rows * tile.dim_stride, 0.0f);
    std::fill_n(tile.ones, spec.dim, 1.0f);
    for (int64_t expert = 0; expert < spec.experts; ++expert) {
      const Expert of = {spec, inputs, kernels, token, expert};
      const Pairs::Range range = pairs.OfRows(token, expert, first, rows);
      for (int64_t pair = range.first; pair < range.last; pair += kChunkRows) {
        void* const kept =
            outputs.kept_inner == nullptr ? nullptr : At(outputs.kept_inner, spec.type, pair * spec.inner);
        AddExpert(of, pairs.rows(pair), std::min(kChunkRows, range.last - pair), first, tile, kept);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      kernels.narrow(tile.y + i * tile.dim_stride, spec.dim,
                     At(outputs.y, spec.type, spec.Place(token, first + i) * spec.dim), spec.type, false);
    }
  });
}

}  // namespace rankmixer
}  // namespace ps_cluster
