// What becomes of a product's result before it goes to memory. An epilogue gets pieces: 8 neighbouring values of a row.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_EPILOGUES_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_EPILOGUES_CUH_

#include "ops/rankmixer_cuda/activation.cuh"
#include "ops/rankmixer_cuda/dropout.cuh"
#include "ops/rankmixer_cuda/product.cuh"

namespace ps_cluster::rankmixer_cuda {

// An array [rows, columns] per token, or with stride 0 one row per token; null: not there.
template <typename T>
struct Matrix {
  T* data;
  int64_t token_stride, stride;
  bool chunks;  // whether a piece can be read and written as accesses of 16 bytes
};

// The values of a piece in a matrix; those past the end of the row are 0.
template <typename T>
__device__ inline void load_piece(const Matrix<const T>& from, const Place& at, int64_t shift, float (&values)[kPiece]) {
  const T* data = from.data + at.token * from.token_stride + at.row * from.stride + at.unit + shift;
  if (from.chunks && at.count == kPiece) {
#pragma unroll
    for (int i = 0; i < kPiece; i += kChunk<T>) {
      float chunk[kChunk<T>];
      load<kChunk<T>>(data + i, chunk);
#pragma unroll
      for (int e = 0; e < kChunk<T>; ++e) values[i + e] = chunk[e];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = i < at.count ? to_float(data[i]) : 0;
  }
}

template <typename T>
__device__ inline void store_piece(const float (&values)[kPiece], const Matrix<T>& to, const Place& at, int64_t shift) {
  T* data = to.data + at.token * to.token_stride + at.row * to.stride + at.unit + shift;
  if (to.chunks && at.count == kPiece) {
#pragma unroll
    for (int i = 0; i < kPiece; i += kChunk<T>) {
      float chunk[kChunk<T>];
#pragma unroll
      for (int e = 0; e < kChunk<T>; ++e) chunk[e] = values[i + e];
      store<kChunk<T>>(chunk, data + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i < at.count) from_float(values[i], data + i);
    }
  }
}

template <typename T>
__device__ inline void add_piece(const Matrix<const T>& from, const Place& at, int64_t shift, float (&values)[kPiece]) {
  float more[kPiece];
  load_piece(from, at, shift, more);
#pragma unroll
  for (int i = 0; i < kPiece; ++i) values[i] += more[i];
}

// result + bias + residual, rounded once; bias and residual may be null.
template <typename T>
struct AddEpilogue {
  static constexpr bool kPaired = false;
  Matrix<const T> bias, residual;
  Matrix<T> out;

  __device__ void operator()(const Place& at, float (&values)[kPiece]) const {
    if (at.count <= 0) return;
    add(at, values);
    store_piece(values, out, at, 0);
  }

  __device__ void add(const Place& at, float (&values)[kPiece]) const {
    if (bias.data != nullptr) add_piece(bias, at, 0, values);
    if (residual.data != nullptr) add_piece(residual, at, 0, values);
  }
};

// As AddEpilogue into its `out`, which may be null, and the layer norm into `normed`: for rows that one block has whole.
template <typename T>
struct AddNormEpilogue {
  static constexpr bool kPaired = false;
  AddEpilogue<T> add;
  Matrix<T> normed;
  Matrix<const T> gamma, beta;  // stride 0
  int width;
  float epsilon;

  __device__ void operator()(const Place& at, float (&values)[kPiece]) const {
    if (at.count > 0) {
      add.add(at, values);
      if (add.out.data != nullptr) store_piece(values, add.out, at, 0);
    }
    // The norm of what is kept, so that keeping it or not, and fusing or not, is the same norm.
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = i < at.count ? rounded<T>(values[i]) : 0;
    float mean = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) mean += values[i];
    mean = row_total(mean) / static_cast<float>(width);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i < at.count) squares += (values[i] - mean) * (values[i] - mean);
    }
    const float scale = rsqrtf(row_total(squares) / static_cast<float>(width) + epsilon);
    if (at.count <= 0) return;
    float factor[kPiece];
    load_piece(gamma, at, 0, factor);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = (values[i] - mean) * scale * factor[i];
    add_piece(beta, at, 0, values);
    store_piece(values, normed, at, 0);
  }

 private:
  // Sum over the lanes that have a row's pieces.
  __device__ static float row_total(float value) {
#pragma unroll
    for (int mask = kTileOuter / kPiece / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
  }
};

// inner = result + bias; hidden = dropout(act(inner)).
template <typename T>
struct ActivateEpilogue {
  static constexpr bool kPaired = false;
  Matrix<const T> bias;
  Matrix<T> inner;  // may be null
  Matrix<T> hidden;
  bool tanh_form;
  Dropout dropout;

  __device__ void operator()(const Place& at, float (&values)[kPiece]) const {
    if (at.count <= 0) return;
    add_piece(bias, at, 0, values);
    if (inner.data != nullptr) store_piece(values, inner, at, 0);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = gelu(values[i], tanh_form).value;
    dropout.apply(at, values);
    store_piece(values, hidden, at, 0);
  }
};

// The same with a gate: hidden = dropout(silu(first half) * second half).
template <typename T>
struct GateEpilogue {
  static constexpr bool kPaired = true;
  Matrix<const T> bias;
  Matrix<T> inner;  // may be null
  Matrix<T> hidden;
  int64_t units;  // from the first half to the second
  Dropout dropout;

  __device__ void operator()(const Place& at, float (&first)[kPiece], float (&second)[kPiece]) const {
    if (at.count <= 0) return;
    add_piece(bias, at, 0, first);
    add_piece(bias, at, units, second);
    if (inner.data != nullptr) {
      store_piece(first, inner, at, 0);
      store_piece(second, inner, at, units);
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i) first[i] = silu(first[i]).value * second[i];
    dropout.apply(at, first);
    store_piece(first, hidden, at, 0);
  }
};

// The result is the gradient of hidden: dinner from it and from inner, and hidden again, from inner.
template <typename T>
struct ActivateGradEpilogue {
  static constexpr bool kPaired = false;
  Matrix<const T> inner;
  Matrix<T> dinner, hidden;
  bool tanh_form;
  Dropout dropout;

  __device__ void operator()(const Place& at, float (&grad)[kPiece]) const {
    if (at.count <= 0) return;
    dropout.apply(at, grad);
    float values[kPiece];
    load_piece(inner, at, 0, values);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const ValueAndSlope of = gelu(values[i], tanh_form);
      values[i] = of.value;
      grad[i] *= of.slope;
    }
    store_piece(grad, dinner, at, 0);
    dropout.apply(at, values);
    store_piece(values, hidden, at, 0);
  }
};

template <typename T>
struct GateGradEpilogue {
  static constexpr bool kPaired = false;
  Matrix<const T> inner;
  Matrix<T> dinner, hidden;
  int64_t units;  // from the first half of inner to the second
  Dropout dropout;

  __device__ void operator()(const Place& at, float (&grad)[kPiece]) const {
    if (at.count <= 0) return;
    dropout.apply(at, grad);
    float first[kPiece], second[kPiece];
    load_piece(inner, at, 0, first);
    load_piece(inner, at, units, second);
    float values[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const ValueAndSlope of = silu(first[i]);
      values[i] = of.value * second[i];
      first[i] = grad[i] * of.slope * second[i];
      second[i] = grad[i] * of.value;
    }
    store_piece(first, dinner, at, 0);
    store_piece(second, dinner, at, units);
    dropout.apply(at, values);
    store_piece(values, hidden, at, 0);
  }
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_EPILOGUES_CUH_
