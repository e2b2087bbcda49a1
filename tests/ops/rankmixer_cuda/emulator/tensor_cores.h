// mma.sync, with operands and result spread over a warp's lanes as the PTX manual draws them.
#ifndef PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_TENSOR_CORES_H_
#define PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_TENSOR_CORES_H_

#include "block.h"
#include "numbers.h"

namespace emulator {

struct Fragments {
  float* c;
  const uint32_t *a, *b;
};

// c [16, 8] += a [16, depth] b [depth, 8]; products and sums of one instruction in float64, rounded once.
template <int depth>
inline void multiply(const double (&a)[16][depth], const double (&b)[depth][8], void* const* brought) {
  double sums[16][8] = {};
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < depth; ++k) {
      for (int j = 0; j < 8; ++j) sums[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float* c = static_cast<const Fragments*>(brought[lane])->c;
    const int row = lane / 4, column = lane % 4 * 2;
    for (int e = 0; e < 4; ++e) {
      const double sum = sums[row + e / 2 * 8][column + e % 2];
      c[e] = static_cast<float>(c[e] + sum);
    }
  }
}

template <float (*to_float)(uint16_t)>
inline void multiply_16_bits(void* const* brought) {
  double a[16][16], b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const Fragments* of = static_cast<const Fragments*>(brought[lane]);
    const int group = lane / 4, within = lane % 4;
    for (int e = 0; e < 8; ++e) {  // a0 to a7: two to a word
      const int row = group + (e / 2 % 2 == 1 ? 8 : 0);
      const int column = within * 2 + e % 2 + (e >= 4 ? 8 : 0);
      a[row][column] = to_float(static_cast<uint16_t>(of->a[e / 2] >> e % 2 * 16));
    }
    for (int e = 0; e < 4; ++e) {
      const int row = within * 2 + e % 2 + (e >= 2 ? 8 : 0);
      b[row][group] = to_float(static_cast<uint16_t>(of->b[e / 2] >> e % 2 * 16));
    }
  }
  multiply<16>(a, b, brought);
}

inline void multiply_tf32(void* const* brought) {
  double a[16][8], b[8][8];
  // The hardware does not look at the 13 lowest bits.
  const auto read = [](uint32_t bits) { return static_cast<double>(float_of(bits & ~0x1fffu)); };
  for (int lane = 0; lane < kLanes; ++lane) {
    const Fragments* of = static_cast<const Fragments*>(brought[lane]);
    const int group = lane / 4, within = lane % 4;
    for (int e = 0; e < 4; ++e) a[group + (e % 2 == 1 ? 8 : 0)][within + (e >= 2 ? 4 : 0)] = read(of->a[e]);
    for (int e = 0; e < 2; ++e) b[within + (e == 1 ? 4 : 0)][group] = read(of->b[e]);
  }
  multiply<8>(a, b, brought);
}

inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments mine{c, a, b};
  together(multiply_16_bits<bfloat16_to_float>, &mine);
}

inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments mine{c, a, b};
  together(multiply_16_bits<half_to_float>, &mine);
}

inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments mine{c, a, b};
  together(multiply_tf32, &mine);
}

}  // namespace emulator

#endif  // PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_TENSOR_CORES_H_
