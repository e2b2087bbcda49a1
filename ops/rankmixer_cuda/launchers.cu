// The functions of rankmixer_cuda.h: checks what a caller gave, then runs the block of its dtype.
#include <limits>

#include "ops/rankmixer_cuda/block.cuh"

namespace ps_cluster::rankmixer_cuda {
namespace {

enum Code {
  kBadShape = -1,
  kBadChoice = -2,
  kBadNumber = -3,
  kTooLarge = -4,
  kBadWorkspace = -5,
  kHalfKept = -6,
  kNoSeed = -7,
  kMisaligned = -8,
};

int check(const Problem& problem) {
  if (problem.batch < 0 || problem.tokens < 1 || problem.dim < 1 || problem.hidden < 1 ||
      problem.dim % problem.tokens != 0) {
    return kBadShape;
  }
  if (problem.dtype < kPsClusterFloat32 || problem.dtype > kPsClusterFloat16 || problem.norm < kPsClusterPostLn ||
      problem.norm > kPsClusterPreRms || problem.activation < kPsClusterGelu || problem.activation > kPsClusterSwiglu) {
    return kBadChoice;
  }
  if (!(problem.epsilon >= 0) || !(problem.dropout >= 0 && problem.dropout < 1)) return kBadNumber;
  // Indices within a row are 32 bits wide, tokens are a grid's third dimension, and blocks its first.
  constexpr int64_t kWidest = 1 << 24, kMostTokens = 65535, kMostRows = int64_t{1} << 33;
  if (problem.dim > kWidest || problem.hidden > kWidest || problem.tokens > kMostTokens ||
      problem.batch > kMostRows / problem.tokens) {
    return kTooLarge;
  }
  const int64_t widest = problem.dim > inner_width(problem) ? problem.dim : inner_width(problem);
  const int64_t longest = problem.batch > widest ? problem.batch : widest;
  const int64_t tiles = blocks_for(longest, kTileOuter) * blocks_for(2 * widest, kTileOuter);
  return tiles > std::numeric_limits<int32_t>::max() ? kTooLarge : 0;
}

int check_call(const Problem& problem, const int64_t* seed, const void* kept_inner, const void* kept_sum,
               const void* workspace, int64_t workspace_bytes, int64_t needed_bytes) {
  if (needed_bytes < 0) return static_cast<int>(needed_bytes);
  if (problem.batch > 0 && (kept_inner == nullptr) != (kept_sum == nullptr)) return kHalfKept;
  if (problem.dropout > 0 && problem.batch > 0 && seed == nullptr) return kNoSeed;
  if (needed_bytes == 0) return 0;
  if (workspace_bytes < needed_bytes || workspace == nullptr) return kBadWorkspace;
  return aligned(workspace, 16) ? 0 : kMisaligned;
}

template <template <typename> class Buffers>
int64_t workspace_bytes(const Problem& problem, bool keep) {
  if (const int code = check(problem); code != 0) return code;
  Workspace counted(nullptr);
  if (problem.dtype == kPsClusterFloat32) {
    Buffers<float>(problem, keep, &counted);
  } else {
    Buffers<BFloat16>(problem, keep, &counted);
  }
  return counted.used();
}

}  // namespace
}  // namespace ps_cluster::rankmixer_cuda

using namespace ps_cluster::rankmixer_cuda;  // NOLINT: C functions have no namespace of their own

extern "C" int64_t ps_cluster_rankmixer_forward_workspace(const PsClusterRankmixerProblem* problem, int32_t keep) {
  return workspace_bytes<ForwardBuffers>(*problem, keep != 0);
}

extern "C" int64_t ps_cluster_rankmixer_backward_workspace(const PsClusterRankmixerProblem* problem, int32_t keep) {
  return workspace_bytes<BackwardBuffers>(*problem, keep != 0);
}

extern "C" int32_t ps_cluster_rankmixer_forward(const PsClusterRankmixerProblem* problem, const void* x,
                                                const PsClusterRankmixerWeights* weights, const int64_t* seed, void* y,
                                                void* kept_inner, void* kept_sum, void* workspace,
                                                int64_t workspace_bytes, void* stream) {
  const int64_t needed = ps_cluster_rankmixer_forward_workspace(problem, kept_sum != nullptr);
  const int code = check_call(*problem, seed, kept_inner, kept_sum, workspace, workspace_bytes, needed);
  if (code != 0 || problem->batch == 0) return code;
  const ForwardCall call{problem,    x,        weights,   seed,
                         y,          kept_inner, kept_sum, workspace, static_cast<Stream>(stream)};
  if (problem->dtype == kPsClusterFloat32) return forward<float>(call);
  return problem->dtype == kPsClusterBfloat16 ? forward<BFloat16>(call) : forward<Half>(call);
}

extern "C" int32_t ps_cluster_rankmixer_backward(const PsClusterRankmixerProblem* problem, const void* dy,
                                                 const void* x, const PsClusterRankmixerWeights* weights,
                                                 const int64_t* seed, const void* kept_inner, const void* kept_sum,
                                                 void* dx, const PsClusterRankmixerGradients* gradients,
                                                 void* workspace, int64_t workspace_bytes, void* stream) {
  const int64_t needed = ps_cluster_rankmixer_backward_workspace(problem, kept_sum != nullptr);
  const int code = check_call(*problem, seed, kept_inner, kept_sum, workspace, workspace_bytes, needed);
  if (code != 0) return code;
  const BackwardCall call{problem,  dy, x,         weights,   seed,
                          kept_inner, kept_sum, dx, gradients, workspace, static_cast<Stream>(stream)};
  if (problem->dtype == kPsClusterFloat32) return backward<float>(call);
  return problem->dtype == kPsClusterBfloat16 ? backward<BFloat16>(call) : backward<Half>(call);
}

extern "C" const char* ps_cluster_rankmixer_message(int32_t code) {
  switch (code) {
    case 0:
      return "no error";
    case kBadShape:
      return "problem: expected batch from 0, tokens, dim and hidden from 1, and tokens a divisor of dim";
    case kBadChoice:
      return "problem: expected one of the values of rankmixer_cuda.h for dtype, norm and activation";
    case kBadNumber:
      return "problem: expected an epsilon from 0 and a dropout from 0 to below 1";
    case kTooLarge:
      return "problem: too large: at most 2^24 for dim and hidden, 65535 tokens, 2^33 rows and 2^31 tiles";
    case kBadWorkspace:
      return "workspace: smaller than the workspace function says";
    case kHalfKept:
      return "kept_inner, kept_sum: expected both or none";
    case kNoSeed:
      return "seed: expected int64 [2] on the device with dropout above 0, found none";
    case kMisaligned:
      return "workspace: expected an address that is a multiple of 16";
  }
#ifdef PS_CLUSTER_EMULATOR
  return ::emulator::message(code);
#else
  return cudaGetErrorString(static_cast<cudaError_t>(code));
#endif
}
