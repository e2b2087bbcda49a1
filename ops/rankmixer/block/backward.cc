#include "ops/rankmixer/block/backward.h"

#include <algorithm>
#include <cstring>

#include "ops/rankmixer/block/backward_token.h"
#include "ops/rankmixer/block/forward.h"
#include "ops/rankmixer/block/scratch.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

constexpr int64_t kMostGroups = 256;

// Rows whose sums of the first norm's gradient are taken together, with kPreRms.
int64_t GroupRows(const BlockSpec& spec) {
  return std::max<int64_t>(16, (spec.batch + kMostGroups - 1) / kMostGroups);
}

struct Workspace {
  float* sources = nullptr;  // [tokens, batch, dim]
  float* sums = nullptr;     // [tokens, 4, dim]
  float* groups = nullptr;   // [groups, dim] with kPreRms
  int64_t sums_size, groups_size;
  int64_t size;

  Workspace(const BlockSpec& spec, float* memory) {
    const bool post = spec.norm == Norm::kPostLayer;
    sums_size = spec.tokens * 4 * spec.dim;
    groups_size = post ? 0 : (spec.batch + GroupRows(spec) - 1) / GroupRows(spec) * spec.dim;
    size = SourcesSize(spec) + sums_size + groups_size;
    if (memory == nullptr) return;
    sources = memory;
    sums = sources + SourcesSize(spec);
    groups = sums + sums_size;
  }

  NormSums OfToken(const BlockSpec& spec, int64_t token) const {
    float* const first = sums + token * 4 * spec.dim;
    return {first, first + spec.dim, first + 2 * spec.dim, first + 3 * spec.dim};
  }
};

// dx of one row: from the gradients of its sources back through mixing, residual and, with kPreRms, the norm before
// them. `two` has room for two rows of `stride` numbers.
void RowGradient(const Block& block, int64_t row, float* two, int64_t stride, float* dgamma1,
                 void* dx) {
  const BlockSpec& spec = block.spec;
  const Kernels& kernels = block.kernels;
  const bool stream = IsLarge(spec.batch * spec.tokens * spec.dim, spec.type);
  for (int64_t token = 0; token < spec.tokens && row + kRowsAhead < spec.batch; ++token) {
    PrefetchNumbers(block.source(token, row + kRowsAhead), spec.dim * 4);
  }
  for (int64_t token = 0; token < spec.tokens; ++token) {
    const float* const own = block.source(token, row);
    const float* const heads = block.source(0, row) + token * spec.head();
    if (spec.norm == Norm::kPostLayer) {
      kernels.gather_heads(heads, spec.batch * spec.dim, spec.tokens, spec.head(), two);
      kernels.add(own, spec.dim, two);
    } else {
      float* const x = two + stride;
      kernels.gather_heads(heads, spec.batch * spec.dim, spec.tokens, spec.head(), two);
      kernels.widen(At(block.inputs.x, spec.type, (row * spec.tokens + token) * spec.dim), spec.type, spec.dim, x);
      const Moments moments = kernels.rms_moments(x, spec.dim, spec.epsilon);
      kernels.normalize_gradient(two, x, spec.dim, moments, block.inputs.gamma1, two, dgamma1, nullptr);
      kernels.add(own, spec.dim, two);
    }
    kernels.narrow(two, spec.dim, At(dx, spec.type, (row * spec.tokens + token) * spec.dim), spec.type, stream);
  }
}

void Clear(const BlockSpec& spec, const BlockGradients& gradients) {
  const int64_t beta = spec.norm == Norm::kPostLayer ? spec.dim : 0;
  const auto clear = [&](void* data, int64_t count) {
    if (count > 0) std::memset(data, 0, static_cast<size_t>(count * SizeOf(spec.type)));
  };
  clear(gradients.gamma1, spec.dim);
  clear(gradients.gamma2, spec.dim);
  clear(gradients.beta1, beta);
  clear(gradients.beta2, beta);
  clear(gradients.w1, spec.tokens * spec.dim * spec.inner);
  clear(gradients.w2, spec.tokens * spec.hidden * spec.dim);
  clear(gradients.b1, spec.tokens * spec.inner);
  clear(gradients.b2, spec.tokens * spec.dim);
}

}  // namespace

int64_t BackwardWorkspace(const BlockSpec& spec) { return Workspace(spec, nullptr).size; }

void Backward(const BlockSpec& spec, const BlockInputs& inputs, const BlockKept& kept, const BlockGradients& gradients,
              const Kernels& kernels, const Executor& executor, float* memory) {
  if (spec.batch == 0) {
    Clear(spec, gradients);
    return;
  }
  const Workspace workspace(spec, memory);
  std::fill_n(workspace.sums, workspace.sums_size, 0.0f);
  std::fill_n(workspace.groups, workspace.groups_size, 0.0f);
  const Block block = {spec, inputs, kernels, workspace.sources};
  if (spec.norm == Norm::kPostLayer || kept.inner == nullptr) FindSources(block, executor);
  const auto token_pass = [&](int64_t token, const Executor& of_token) {
    BackwardToken(block, token, kept, gradients, of_token, workspace.OfToken(spec, token));
  };
  if (spec.tokens >= executor.threads()) {
    const SerialExecutor serial;
    executor.Run(spec.tokens, [&](int64_t token) { token_pass(token, serial); });
  } else {
    for (int64_t token = 0; token < spec.tokens; ++token) token_pass(token, executor);
  }

  const int64_t stride = TileStride(spec.dim);
  const int64_t group_rows = GroupRows(spec);
  RunParts(executor, spec.batch, group_rows, [&](int64_t first, int64_t rows) {
    float* const two = static_cast<float*>(Scratch::OfThread(Scratch::kTile).Get(2 * stride * 4));
    float* const dgamma1 = workspace.groups + first / group_rows * spec.dim;
    for (int64_t row = first; row < first + rows; ++row) {
      RowGradient(block, row, two, stride, dgamma1, gradients.x);
    }
    FinishStreams();
  });

  // Sums over tokens, or over groups of rows, into the first of each.
  const NormSums total = workspace.OfToken(spec, 0);
  for (int64_t token = 1; token < spec.tokens; ++token) {
    const NormSums sums = workspace.OfToken(spec, token);
    kernels.add(sums.gamma1, spec.dim, total.gamma1);
    kernels.add(sums.beta1, spec.dim, total.beta1);
    kernels.add(sums.gamma2, spec.dim, total.gamma2);
    kernels.add(sums.beta2, spec.dim, total.beta2);
  }
  for (int64_t at = 0; at < workspace.groups_size; at += spec.dim) {
    kernels.add(workspace.groups + at, spec.dim, total.gamma1);
  }
  kernels.narrow(total.gamma1, spec.dim, gradients.gamma1, spec.type, false);
  kernels.narrow(total.gamma2, spec.dim, gradients.gamma2, spec.type, false);
  if (spec.norm != Norm::kPostLayer) return;
  kernels.narrow(total.beta1, spec.dim, gradients.beta1, spec.type, false);
  kernels.narrow(total.beta2, spec.dim, gradients.beta2, spec.type, false);
}

}  // namespace rankmixer
}  // namespace ps_cluster
