// The kernels in the instructions of AVX-512.
#include "ops/rankmixer/block/kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <utility>

// What stands above is compiled for every processor, what stands below for one that has these instructions. So no
// inline function may stand below that another unit has too: the linker keeps one copy of it.
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")

#include "ops/rankmixer/block/make_kernels.h"
#include "ops/rankmixer/block/simd_avx512.h"

namespace ps_cluster {
namespace rankmixer {

const Kernels* Avx512Kernels() {
  static const Kernels kernels = MakeKernels<Avx512>("avx512");
  return &kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#else

namespace ps_cluster {
namespace rankmixer {

const Kernels* Avx512Kernels() { return nullptr; }

}  // namespace rankmixer
}  // namespace ps_cluster

#endif
