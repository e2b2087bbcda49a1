// The fused RankMixer block on a CUDA device, for any caller that has device pointers: plain C, nothing of TensorFlow.
//
// What a block computes is said at the registration of the op, ops/rankmixer/ops/rankmixer_block_ops.cc; shapes are
// those. Pointers are device pointers unless said otherwise, arrays row-major and dense. Work is put on `stream`
// and not waited for; the pointers must stay valid until it is done. The structs themselves lie in host memory and are read
// before a call returns. Sums have a fixed order: the same inputs give the same bits, whatever the device has to do besides.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_RANKMIXER_CUDA_H_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_RANKMIXER_CUDA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum PsClusterRankmixerDtype { kPsClusterFloat32 = 0, kPsClusterBfloat16 = 1, kPsClusterFloat16 = 2 };
enum PsClusterRankmixerNorm { kPsClusterPostLn = 0, kPsClusterPreRms = 1 };
enum PsClusterRankmixerActivation { kPsClusterGelu = 0, kPsClusterGeluTanh = 1, kPsClusterSwiglu = 2 };

typedef struct {
  int64_t batch;
  int64_t tokens;
  int64_t dim;
  int64_t hidden;
  int32_t dtype;
  int32_t norm;
  int32_t activation;
  // How products of float32 are made on the tensor cores. 1: operands rounded to TF32 (10 bits), as TensorFlow's own
  // matmul does unless told otherwise. 0: each operand split into two TF32 parts, three products, which keeps
  // all but about two of float32's bits and is still faster than the cores' float32 units. Other dtypes ignore it.
  int32_t tf32;
  float epsilon;
  float dropout;
} PsClusterRankmixerProblem;

typedef struct {
  const void *gamma1, *beta1, *w1, *b1, *w2, *b2, *gamma2, *beta2;
} PsClusterRankmixerWeights;

typedef struct {
  void *gamma1, *beta1, *w1, *b1, *w2, *b2, *gamma2, *beta2;
} PsClusterRankmixerGradients;

// Bytes of scratch memory on the device that a call needs, aligned to 16; below 0 for a problem that cannot be, with a
// code for ps_cluster_rankmixer_message. `keep`: kept_inner and kept_sum are given.
int64_t ps_cluster_rankmixer_forward_workspace(const PsClusterRankmixerProblem* problem, int32_t keep);
int64_t ps_cluster_rankmixer_backward_workspace(const PsClusterRankmixerProblem* problem, int32_t keep);

// y from x. seed: int64 [2], looked at with dropout only. kept_inner and kept_sum: both given, or both null. Returns 0 or
// a code for ps_cluster_rankmixer_message.
int32_t ps_cluster_rankmixer_forward(const PsClusterRankmixerProblem* problem, const void* x,
                                     const PsClusterRankmixerWeights* weights, const int64_t* seed, void* y,
                                     void* kept_inner, void* kept_sum, void* workspace, int64_t workspace_bytes,
                                     void* stream);

// Gradients of x and the weights from the gradient dy of y. With pre_rms beta1 and beta2 are looked at nowhere.
int32_t ps_cluster_rankmixer_backward(const PsClusterRankmixerProblem* problem, const void* dy, const void* x,
                                      const PsClusterRankmixerWeights* weights, const int64_t* seed,
                                      const void* kept_inner, const void* kept_sum, void* dx,
                                      const PsClusterRankmixerGradients* gradients, void* workspace,
                                      int64_t workspace_bytes, void* stream);

// What a code means, in one line; lives for ever. Positive codes are those of the CUDA runtime.
const char* ps_cluster_rankmixer_message(int32_t code);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_RANKMIXER_CUDA_H_
