// The kernels in the instructions of AVX2 and FMA.
#include "ops/rankmixer/block/kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <utility>

// What stands above is compiled for every processor, what stands below for one that has these instructions. So no
// inline function may stand below that another unit has too: the linker keeps one copy of it.
#pragma GCC target("avx2,fma,f16c")

#include "ops/rankmixer/block/make_kernels.h"
#include "ops/rankmixer/block/simd_avx2.h"

namespace ps_cluster {
namespace rankmixer {

const Kernels* Avx2Kernels() {
  static const Kernels kernels = MakeKernels<Avx2>("avx2");
  return &kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#else

namespace ps_cluster {
namespace rankmixer {

const Kernels* Avx2Kernels() { return nullptr; }

}  // namespace rankmixer
}  // namespace ps_cluster

#endif
