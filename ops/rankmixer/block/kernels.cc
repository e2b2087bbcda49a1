#include "ops/rankmixer/block/kernels.h"

#include <cstdlib>
#include <cstring>

#include "ops/rankmixer/block/scratch.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ps_cluster {
namespace rankmixer {
namespace {

// Whether the processor multiplies and adds pairs of bfloat16 numbers.
bool HasPairs() {
#ifdef __x86_64__
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;  // AVX512_BF16
#else
  return false;
#endif
}

// Whether it has tiles of them, and the system lets this process use them.
bool MayUseTiles() {
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
  constexpr unsigned kBfloat16 = 1u << 22, kTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBfloat16) == 0 || (d & kTile) == 0) return false;
  // The tiles' memory is so large that a process has to ask before it first touches them.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const Kernels* Choose() {
  const char* const names[] = {"sse", "avx2", "avx512", "avx512_bf16", "amx"};
  const char* const wanted = std::getenv("PS_CLUSTER_ISA");
  int most = 4;
  for (int i = 0; i < 5; ++i) {
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
  if (most < 3 || !HasPairs()) return chosen;
  if (const Kernels* kernels = Avx512Bfloat16Kernels()) chosen = kernels;
  if (most < 4 || !MayUseTiles()) return chosen;
  if (const Kernels* kernels = AmxKernels()) chosen = kernels;
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
