// The functions of the inner loops, as a table for each set of instructions; which one this processor uses.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_KERNELS_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_KERNELS_H_

#include <cstdint>

#include "ops/rankmixer/block/dropout.h"
#include "ops/rankmixer/block/gemm.h"
#include "ops/rankmixer/block/spec.h"

namespace ps_cluster {
namespace rankmixer {

// What a norm found of a row u: the normed row is (u - mean) * scale, with RMSNorm mean = 0.
struct Moments {
  float mean, scale;
};

// All work on rows of n numbers, float32 where no type is given. Rows that are written may be those that are read.
struct Kernels {
  const char* name;
  bool fast_bfloat16;
  int64_t scratch_bytes;  // that `multiply` needs, aligned to 64
  void (*multiply)(const Product& product, void* scratch);

  // Copies a row from and to a type.
  void (*widen)(const void* from, Number type, int64_t n, float* to);
  // `stream`: `to` is not read again soon.
  void (*narrow)(const float* from, int64_t n, void* to, Number type, bool stream);

  // to[j * width + d] = from[j * stride + d] for all heads j, numbers d of a head.
  void (*gather_heads)(const float* from, int64_t stride, int64_t heads, int64_t width, float* to);
  // to += a row of a type.
  void (*add_wide)(const void* from, Number type, int64_t n, float* to);

  Moments (*layer_moments)(const float* u, int64_t n, float epsilon);
  Moments (*rms_moments)(const float* u, int64_t n, float epsilon);
  // normed = (u - mean) * scale * gamma + beta; beta may be null.
  void (*normalize)(const float* u, int64_t n, const Moments& moments, const float* gamma, const float* beta,
                    float* normed);
  // du from the gradient dy of the normed row; adds to dgamma and, if not null (RMSNorm), to dbeta.
  void (*normalize_gradient)(const float* dy, const float* u, int64_t n, const Moments& moments, const float* gamma,
                             float* du, float* dgamma, float* dbeta);

  // a + bias; kept, if not null, becomes that, h the activation of it times the dropout's factors. `unit` is the
  // first number's hidden unit.
  void (*activate)(Activation activation, const float* a, const float* bias, int64_t n, const DropoutRow& dropout,
                   int64_t unit, float* h, void* kept, Number type, bool stream);
  // h and its slope in a, from what was kept.
  void (*activate_with_slope)(Activation activation, const void* kept, Number type, int64_t n,
                              const DropoutRow& dropout, float* h, float* slope);
  // The same for swiglu; rows of 2 n numbers but h, dh. bias may be null.
  void (*swiglu)(const void* a, Number a_type, const float* bias, int64_t n, const DropoutRow& dropout, float* h,
                 void* kept, Number type);
  void (*swiglu_gradient)(const void* kept, Number type, const float* dh, int64_t n, const DropoutRow& dropout,
                          float* da);

  // to *= by; to += one, to += one + two.
  void (*multiply_by)(const float* by, int64_t n, float* to);
  void (*add)(const float* one, int64_t n, float* to);
  void (*add_two)(const float* one, const float* two, int64_t n, float* to);
  // sums += the sum of `rows` rows, in order.
  void (*add_column_sums)(const float* from, int64_t stride, int64_t rows, int64_t n, float* sums);
};

// The table of a set of instructions, null where the compiler has none for it. Whether the processor has the set is
// not asked here.
const Kernels* BaselineKernels();
const Kernels* Avx2Kernels();
const Kernels* Avx512Kernels();
const Kernels* Avx512Bfloat16Kernels();
const Kernels* AmxKernels();

// The best table this processor runs, at most the one that the environment variable PS_CLUSTER_ISA names when the
// first block is computed: sse, avx2, avx512, avx512_bf16 or amx.
const Kernels& ChosenKernels();

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_KERNELS_H_
