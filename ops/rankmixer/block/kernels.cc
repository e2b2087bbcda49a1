#include "ops/rankmixer/block/kernels.h"

#include <cstdlib>
#include <cstring>

#include "ops/rankmixer/block/scratch.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

const Kernels* Choose() {
  const char* const names[] = {"sse", "avx2", "avx512", "amx"};
  const char* const wanted = std::getenv("PS_CLUSTER_ISA");
  int most = 3;
  for (int i = 0; i < 4; ++i) {
    if (wanted != nullptr && std::strcmp(wanted, names[i]) == 0) most = i;
  }
  const Kernels* chosen = BaselineKernels();
#ifdef __x86_64__
  __builtin_cpu_init();
  if (most < 1 || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return chosen;
  if (const Kernels* kernels = Avx2Kernels()) chosen = kernels;
  if (most < 2 || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return chosen;
  }
  if (const Kernels* kernels = Avx512Kernels()) chosen = kernels;
#endif
  return chosen;
}

}  // namespace

const Kernels& ChosenKernels() {
  static const Kernels* const kernels = Choose();
  return *kernels;
}

void Multiply(const Kernels& kernels, const Product& product) {
  if (product.m == 0 || product.n == 0) return;
  kernels.multiply(product, Scratch::OfThread(Scratch::kProduct).Get(kernels.scratch_bytes));
}

}  // namespace rankmixer
}  // namespace ps_cluster
