// The kernels in the instructions of AVX-512, products of bfloat16 in those of AMX.
#include "ops/rankmixer/block/kernels.h"

// GCC has the tiles' instructions from version 11 on.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 11

#include <immintrin.h>

#include <utility>

// See kernels_avx512.cc. The compiler uses none of the additional instructions by itself, so that functions both units
// have are the same.
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")

#include "ops/rankmixer/block/gemm_amx.h"
#include "ops/rankmixer/block/simd_avx512.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

struct Amx : Avx512 {
  static H ToBfloat16(F value) { return (H)_mm512_cvtneps_pbh((__m512)value); }
};

void MultiplyByType(const Product& product, void* scratch) {
  if (product.factors == Number::kBfloat16) {
    MultiplyAmx<Amx>(product, scratch);
  } else {
    Avx512Kernels()->multiply(product, scratch);
  }
}

Kernels MakeAmxKernels() {
  Kernels kernels = *Avx512Kernels();
  kernels.name = "amx";
  kernels.fast_bfloat16 = true;
  kernels.scratch_bytes = kernels.scratch_bytes > kAmxScratchBytes ? kernels.scratch_bytes : kAmxScratchBytes;
  kernels.multiply = &MultiplyByType;
  return kernels;
}

}  // namespace

const Kernels* AmxKernels() {
  static const Kernels kernels = MakeAmxKernels();
  return &kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#else

namespace ps_cluster {
namespace rankmixer {

const Kernels* AmxKernels() { return nullptr; }

}  // namespace rankmixer
}  // namespace ps_cluster

#endif
