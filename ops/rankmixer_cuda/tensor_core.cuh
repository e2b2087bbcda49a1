// Instructions of tensor cores and of copies into shared memory, one function each.
//
// mma.sync is what compute capability 8.0 has and 9.0 runs as well; 9.0's own wgmma is not used. A product's 16 x 8 result
// lies in a warp so: lane l has row l / 4, columns 2 (l % 4) and the next in c[0], c[1], the same of row l / 4 + 8
// in c[2], c[3].
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_TENSOR_CORE_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_TENSOR_CORE_CUH_

#include "ops/rankmixer_cuda/types.cuh"

namespace ps_cluster::rankmixer_cuda {

// c [16, 8] += a [16, 16] b [16, 8]; two values in each word of a and b.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BFloat16) {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::mma_bf16(c, a, b);
#elif defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Half) {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::mma_f16(c, a, b);
#elif defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// c [16, 8] += a [16, 8] b [8, 8]; one TF32 value in each word of a and b.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float) {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::mma_tf32(c, a, b);
#elif defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Nearest TF32 value: float32 with 10 bits of mantissa.
__device__ inline uint32_t to_tf32(float value) {
#if defined(PS_CLUSTER_EMULATOR)
  return ::emulator::float_to_tf32(value);
#elif defined(__CUDA_ARCH__)
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
#else
  return 0;
#endif
}

#ifdef __CUDA_ARCH__
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif

// Four 8 x 8 matrices of 16-bit values; lane l says where row l % 8 of matrix l / 8 lies in shared memory. words[i] of
// lane l gets columns 2 (l % 4) and the next of row l / 4 of matrix i; transposed, of its transpose.
template <bool transposed>
__device__ inline void load_matrices(const void* row, uint32_t (&words)[4]) {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::ldmatrix(row, words, transposed);
#elif defined(__CUDA_ARCH__)
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
#endif
}

// Starts the copy of 16 bytes into shared memory, or of 16 bytes of zeros, `from` then not being read.
__device__ inline void copy_chunk(void* to, const void* from, bool there) {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::copy_async(to, from, there);
#elif defined(__CUDA_ARCH__)
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
#endif
}

// Ends a group of copies, which may be empty.
__device__ inline void commit_copies() {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::commit_copies();
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the last `pending` groups of this thread's copies are there, for this thread to see.
template <int pending>
__device__ inline void wait_for_copies() {
#if defined(PS_CLUSTER_EMULATOR)
  ::emulator::wait_for_copies(pending);
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_TENSOR_CORE_CUH_
