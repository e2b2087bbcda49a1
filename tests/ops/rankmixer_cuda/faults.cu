// Kernels with one fault each, and what is right beside them: the emulator must tell them apart.
#include "ops/rankmixer_cuda/tensor_core.cuh"

using namespace ps_cluster::rankmixer_cuda;  // NOLINT

namespace {

// Each thread hands a value to its neighbour of the next warp.
void neighbour(float* out, bool with_barrier) {
  PS_CLUSTER_SHARED(shared);
  float* values = reinterpret_cast<float*>(shared);
  values[threadIdx.x] = warp_sum(static_cast<float>(threadIdx.x));
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + kWarp) % kThreads];
}

// Each thread copies 16 bytes and reads them.
void copy(const float* in, float* out, bool with_wait) {
  PS_CLUSTER_SHARED(shared);
  float* values = reinterpret_cast<float*>(shared) + threadIdx.x * 4;
  copy_chunk(values, in + threadIdx.x * 4, true);
  commit_copies();
  if (with_wait) wait_for_copies<0>();
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = values[i];
}

void write_shared(int index) {
  PS_CLUSTER_SHARED(shared);
  if (threadIdx.x == 0) shared[index] = 1;
}

void barrier_of_some(bool all) {
  if (all || threadIdx.x < kWarp) __syncthreads();
}

// One product of a warp: out [16, 8] from row-major in, a [16, depth] and b [depth, 8], by element.
template <typename T, int depth>
void multiply(const T* a, const T* b, float* out) {
  if (warp() != 0) return;
  const int group = lane() / 4, within = lane() % 4;
  float c[4] = {};
  uint32_t words_a[4], words_b[2];
  if constexpr (sizeof(T) == 2) {
    const auto pair = [](T low, T high) { return static_cast<uint32_t>(low.bits) | static_cast<uint32_t>(high.bits) << 16; };
    for (int i = 0; i < 4; ++i) {
      const T* at = a + (group + i % 2 * 8) * depth + i / 2 * 8 + within * 2;
      words_a[i] = pair(at[0], at[1]);
    }
    for (int i = 0; i < 2; ++i) {
      const T* at = b + (i * 8 + within * 2) * 8 + group;
      words_b[i] = pair(at[0], at[8]);
    }
  } else {
    for (int i = 0; i < 4; ++i) words_a[i] = to_tf32(a[(group + i % 2 * 8) * depth + within + i / 2 * 4]);
    for (int i = 0; i < 2; ++i) words_b[i] = to_tf32(b[(within + i * 4) * 8 + group]);
  }
  multiply_add(c, words_a, words_b, T{});
  for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + within * 2 + i % 2] = c[i];
}

template <typename T>
void convert(const float* in, T* narrow, float* wide, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  from_float(in[i], narrow + i);
  wide[i] = to_float(narrow[i]);
}

}  // namespace

extern "C" {

int run_neighbour(float* out, int with_barrier) {
  return launch(neighbour, 1, 1, 1, kThreads * sizeof(float), nullptr, out, with_barrier != 0);
}
int run_copy(const float* in, float* out, int with_wait) {
  return launch(copy, 1, 1, 1, kThreads * 16, nullptr, in, out, with_wait != 0);
}
int run_write_shared(int index, int bytes) { return launch(write_shared, 1, 1, 1, bytes, nullptr, index); }
int run_barrier(int all) { return launch(barrier_of_some, 1, 1, 1, 0, nullptr, all != 0); }

int multiply_bfloat16(const BFloat16* a, const BFloat16* b, float* out) {
  return launch(multiply<BFloat16, 16>, 1, 1, 1, 0, nullptr, a, b, out);
}
int multiply_float16(const Half* a, const Half* b, float* out) {
  return launch(multiply<Half, 16>, 1, 1, 1, 0, nullptr, a, b, out);
}
int multiply_float32(const float* a, const float* b, float* out) {
  return launch(multiply<float, 8>, 1, 1, 1, 0, nullptr, a, b, out);
}
int convert_bfloat16(const float* in, BFloat16* narrow, float* wide, int64_t count) {
  return launch(convert<BFloat16>, blocks_for(count, kThreads), 1, 1, 0, nullptr, in, narrow, wide, count);
}
int convert_float16(const float* in, Half* narrow, float* wide, int64_t count) {
  return launch(convert<Half>, blocks_for(count, kThreads), 1, 1, 0, nullptr, in, narrow, wide, count);
}

const char* fault_message(int code) { return emulator::message(code); }

}  // extern "C"
