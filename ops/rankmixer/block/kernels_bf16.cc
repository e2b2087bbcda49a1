// The kernels in the instructions of AVX-512, products of bfloat16 in those of its extension AVX512_BF16.
#include "ops/rankmixer/block/kernels.h"

// GCC has the extension's instructions from version 10 on.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 10

#include <immintrin.h>

#include <utility>

// See kernels_avx512.cc, and kernels_amx.cc for the additional instructions.
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#pragma GCC target("avx512bf16")

#include "ops/rankmixer/block/gemm_pairs.h"
#include "ops/rankmixer/block/simd_avx512.h"

namespace ps_cluster {
namespace rankmixer {
namespace {

struct Avx512Bfloat16 : Avx512 {
  static constexpr bool kPairs = true;
  static H ToBfloat16(F value) { return (H)_mm512_cvtneps_pbh((__m512)value); }
  static F MultiplyAdd(F a, F b, F c) { return (F)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b); }
};

void MultiplyByType(const Product& product, void* scratch) {
  if (product.factors == Number::kBfloat16) {
    MultiplyPairs<Avx512Bfloat16>(product, scratch);
  } else {
    Avx512Kernels()->multiply(product, scratch);
  }
}

Kernels MakeBfloat16Kernels() {
  Kernels kernels = *Avx512Kernels();
  kernels.name = "avx512_bf16";
  kernels.fast_bfloat16 = true;
  kernels.multiply = &MultiplyByType;
  return kernels;
}

}  // namespace

const Kernels* Avx512Bfloat16Kernels() {
  static const Kernels kernels = MakeBfloat16Kernels();
  return &kernels;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#else

namespace ps_cluster {
namespace rankmixer {

const Kernels* Avx512Bfloat16Kernels() { return nullptr; }

}  // namespace rankmixer
}  // namespace ps_cluster

#endif
