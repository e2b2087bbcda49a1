#include "ops/rankmixer/experts/backward.h"

#include <algorithm>

#include "ops/rankmixer/block/scratch.h"
#include "ops/rankmixer/experts/backward_expert.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

constexpr int64_t kSumRows = 256;  // of a token, whose gradients are summed at a time

// Tokens whose experts are computed together: so many that threads have enough of them, and no more, since the
// gradients of all their rows are held until they are summed.
int64_t GroupTokens(const ExpertsSpec& spec, int64_t threads) {
  return std::min(spec.tokens, (4 * threads + spec.experts - 1) / spec.experts);
}

// Sums the experts' gradients of rows [first, first + rows) of a token; those of pair `base` are ds's first.
void SumExperts(const ExpertsSpec& spec, const Pairs& pairs, const Kernels& kernels, int64_t token, int64_t first,
                int64_t rows, const float* ds, int64_t base, void* dtokens) {
  const int64_t stride = TileStride(spec.dim);
  float* const sums = static_cast<float*>(
      Scratch::OfThread(Scratch::kTile).Get(rows * stride * static_cast<int64_t>(sizeof(float))));
  std::fill_n(sums, rows * stride, 0.0f);
  for (int64_t expert = 0; expert < spec.experts; ++expert) {
    const Pairs::Range range = pairs.OfRows(token, expert, first, rows);
    for (int64_t pair = range.first; pair < range.last; ++pair) {
      kernels.add(ds + (pair - base) * spec.dim, spec.dim, sums + (*pairs.rows(pair) - first) * stride);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    kernels.narrow(sums + i * stride, spec.dim, At(dtokens, spec.type, spec.Place(token, first + i) * spec.dim),
                   spec.type, false);
  }
}

}  // namespace

int64_t BackwardExpertsWorkspace(const ExpertsSpec& spec, const Pairs& pairs, int64_t threads) {
  const int64_t group = GroupTokens(spec, threads);
  int64_t most = 0;
  for (int64_t token = 0; token < spec.tokens; token += group) {
    most = std::max(most, pairs.OfTokens(token, std::min(group, spec.tokens - token)).size());
  }
  return most * spec.dim;
}

void BackwardExperts(const ExpertsSpec& spec, const ExpertsInputs& inputs, const Pairs& pairs, const ExpertsKept& kept,
                     const ExpertsGradients& gradients, const Kernels& kernels, const Executor& executor,
                     float* workspace) {
  std::fill_n(gradients.gates, spec.batch * spec.tokens * spec.experts, 0.0f);
  const int64_t group = GroupTokens(spec, executor.threads());
  for (int64_t token = 0; token < spec.tokens; token += group) {
    const int64_t tokens = std::min(group, spec.tokens - token);
    const int64_t base = pairs.OfTokens(token, tokens).first;
    executor.Run(tokens * spec.experts, [&](int64_t task) {
      const Expert of = {spec, inputs, kernels, token + task / spec.experts, task % spec.experts};
      float* const ds = workspace + (pairs.OfExpert(of.token, of.expert).first - base) * spec.dim;
      BackwardExpert(of, pairs, kept, gradients, ds);
    });
    const int64_t parts = (spec.batch + kSumRows - 1) / kSumRows;
    executor.Run(tokens * parts, [&](int64_t task) {
      const int64_t first = task % parts * kSumRows;
      SumExperts(spec, pairs, kernels, token + task / parts, first, std::min(kSumRows, spec.batch - first), workspace,
                 base, gradients.tokens);
    });
  }
}

}  // namespace rankmixer
}  // namespace ps_cluster
