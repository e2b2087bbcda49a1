// The steps that a block's forward and backward pass are made of, each one kernel, put on a stream.
#ifndef PS_CLUSTER_OPS_RANKMIXER_CUDA_STEPS_CUH_
#define PS_CLUSTER_OPS_RANKMIXER_CUDA_STEPS_CUH_

#include "ops/rankmixer_cuda/epilogues.cuh"
#include "ops/rankmixer_cuda/norm_grad.cuh"
#include "ops/rankmixer_cuda/workspace.cuh"

namespace ps_cluster::rankmixer_cuda {

template <typename T>
struct TypedWeights {
  const T *gamma1, *beta1, *w1, *b1, *w2, *b2, *gamma2, *beta2;

  explicit TypedWeights(const Weights& of)
      : gamma1(static_cast<const T*>(of.gamma1)),
        beta1(static_cast<const T*>(of.beta1)),
        w1(static_cast<const T*>(of.w1)),
        b1(static_cast<const T*>(of.b1)),
        w2(static_cast<const T*>(of.w2)),
        b2(static_cast<const T*>(of.b2)),
        gamma2(static_cast<const T*>(of.gamma2)),
        beta2(static_cast<const T*>(of.beta2)) {}
};

// Once a step could not be started, the later ones are not.
template <typename T, Precision precision>
class Steps {
 public:
  // wide: whether all arrays that rows are read from or written to begin at a multiple of 16 bytes.
  Steps(const Problem& problem, const Weights& weights, const int64_t* seed, bool wide, Stream stream)
      : w(weights),
        shape_(block_shape(problem)),
        hidden_(problem.hidden),
        inner_(inner_width(problem)),
        gated_(gated(problem)),
        tanh_form_(problem.activation == kPsClusterGeluTanh),
        wide_(wide && shape_.head % kChunk<T> == 0),
        epsilon_(problem.epsilon),
        dropout_(seed, problem.dropout),
        stream_(stream) {}

  const TypedWeights<T> w;

  // Code of the first step that could not be started, 0 if there was none.
  int code() const { return code_; }

  template <Norm kind, Form form>
  void norm(Rows<const T> in, const T* gamma, const T* beta, Rows<T> out) {
    rows_launch(norm_kernel<kind, form, kChunk<T>, T>, norm_kernel<kind, form, 1, T>, in, gamma, beta, epsilon_, out);
  }

  void mix_rms(Rows<const T> x, RowStatistics* statistics, Rows<T> sum, Rows<T> normed) {
    rows_launch(statistics_kernel<Norm::kRms, kChunk<T>, T>, statistics_kernel<Norm::kRms, 1, T>, x, epsilon_,
                statistics);
    rows_launch(mix_rms_kernel<kChunk<T>, T>, mix_rms_kernel<1, T>, x, statistics, w.gamma1, w.gamma2, epsilon_, sum,
                normed);
  }

  template <Norm norm, Form in_form, Form dout_form>
  void norm_grad(Rows<const T> in, Rows<const T> dout, const T* gamma, Rows<const T> more, Rows<T> din,
                 RowStatistics* statistics, float* parts, void* dgamma, void* dbeta) {
    rows_launch(norm_grad_kernel<norm, in_form, dout_form, kChunk<T>, T>,
                norm_grad_kernel<norm, in_form, dout_form, 1, T>, in, dout, gamma, epsilon_, more, din, statistics);
    const RowChunks chunks = row_chunks(shape_.rows());
    run(norm_parts_kernel<norm, in_form, dout_form, T>, blocks_for(shape_.dim, kWarp), chunks.chunks, 1,
        kColumnSumsShared, shape_, chunks, in, dout, statistics, parts);
    finish_sums(chunks.chunks, shape_.dim, 1, parts, dgamma);
    if (norm == Norm::kLayer) {
      finish_sums(chunks.chunks, shape_.dim, 1, parts + static_cast<int64_t>(chunks.chunks) * shape_.dim, dbeta);
    }
  }

  // out = mix(in) + in.
  void unmix(Rows<const T> in, Rows<T> out) { rows_launch(unmix_kernel<kChunk<T>, T>, unmix_kernel<1, T>, in, out); }

  // out [tokens, columns]: sums of in's [columns] over the batch.
  void bias_sums(Rows<const T> in, int64_t columns, float* parts, void* out) {
    const RowChunks chunks = row_chunks(shape_.batch);
    run(bias_parts_kernel<T>, blocks_for(columns, kWarp), chunks.chunks, shape_.tokens, kColumnSumsShared, chunks,
        columns, in.data, in.token_stride, in.batch_stride, parts);
    finish_sums(chunks.chunks, columns, shape_.tokens, parts, out);
  }

  // inner = normed w1 + b1, hidden = dropout(act(inner)); inner may be null.
  void activate(const T* normed, T* inner, T* hidden) {
    const ProductShape product{shape_.batch, hidden_, shape_.dim};
    const Operand<T> a = operand(token_first(normed, shape_), shape_.dim);
    const Operand<T> b = weight(w.w1, shape_.dim, inner_, hidden_);
    const Matrix<const T> bias = row_per_token(w.b1, inner_, hidden_);
    const Matrix<T> to_inner = matrix(per_token(inner, inner_), hidden_);
    const Matrix<T> to_hidden = matrix(per_token(hidden, hidden_), hidden_);
    if (gated_) {
      multiply<Dense::kSummed, Dense::kOuter>(product, a, b,
                                              GateEpilogue<T>{bias, to_inner, to_hidden, hidden_, dropout_});
    } else {
      multiply<Dense::kSummed, Dense::kOuter>(product, a, b,
                                              ActivateEpilogue<T>{bias, to_inner, to_hidden, tanh_form_, dropout_});
    }
  }

  // out = hidden w2 + b2 + residual.
  void reduce(const T* hidden, Rows<const T> residual, Rows<T> out) {
    multiply<Dense::kSummed, Dense::kOuter>(reduction(), operand(per_token(hidden, hidden_), hidden_),
                                            weight(w.w2, hidden_, shape_.dim, shape_.dim), add(w.b2, residual, out));
  }

  // As reduce into `sum`, which may be null, and its norm into `out`; for dim up to the width of a block.
  void reduce_and_norm(const T* hidden, Rows<const T> residual, Rows<T> sum, Rows<T> out) {
    const AddNormEpilogue<T> epilogue{add(w.b2, residual, sum),
                                      matrix(out, shape_.dim),
                                      row_per_token(w.gamma2, 0, shape_.dim),
                                      row_per_token(w.beta2, 0, shape_.dim),
                                      shape_.dim,
                                      epsilon_};
    multiply<Dense::kSummed, Dense::kOuter>(reduction(), operand(per_token(hidden, hidden_), hidden_),
                                            weight(w.w2, hidden_, shape_.dim, shape_.dim), epilogue);
  }

  // dinner from dsum, the gradient of the networks' results, and hidden once more.
  void activate_grad(Rows<const T> dsum, const T* inner, T* dinner, T* hidden) {
    const ProductShape product{shape_.batch, hidden_, shape_.dim};
    const Operand<T> a = operand(dsum, shape_.dim);
    const Operand<T> b = weight(w.w2, hidden_, shape_.dim, shape_.dim);
    const Matrix<const T> from = matrix(per_token(inner, inner_), hidden_);
    const Matrix<T> to_inner = matrix(per_token(dinner, inner_), hidden_);
    const Matrix<T> to_hidden = matrix(per_token(hidden, hidden_), hidden_);
    if (gated_) {
      multiply<Dense::kSummed, Dense::kSummed>(product, a, b,
                                               GateGradEpilogue<T>{from, to_inner, to_hidden, hidden_, dropout_});
    } else {
      multiply<Dense::kSummed, Dense::kSummed>(
          product, a, b, ActivateGradEpilogue<T>{from, to_inner, to_hidden, tanh_form_, dropout_});
    }
  }

  // dnormed = dinner w1^T + residual, which may be null.
  void reduce_grad(const T* dinner, Rows<const T> residual, T* dnormed) {
    multiply<Dense::kSummed, Dense::kSummed>(
        {shape_.batch, shape_.dim, inner_}, operand(per_token(dinner, inner_), inner_),
        weight(w.w1, shape_.dim, inner_, inner_), add(nullptr, residual, token_first(dnormed, shape_)));
  }

  // dw [tokens, rows, columns] = in^T dout over the batch.
  void weight_grad(Rows<const T> in, int64_t rows, Rows<const T> dout, int64_t columns, void* dw) {
    const Matrix<T> to = matrix(Rows<T>{static_cast<T*>(dw), columns, rows * columns}, columns);
    multiply<Dense::kOuter, Dense::kOuter>({rows, columns, shape_.batch}, operand(in, rows), operand(dout, columns),
                                           AddEpilogue<T>{{}, {}, to});
  }

  template <typename U>
  Rows<U> per_token(U* data, int64_t width) const {
    return {data, width, shape_.batch * width};
  }
  const BlockShape& shape() const { return shape_; }

 private:
  template <typename... P, typename... A>
  void run(void (*kernel)(P...), int64_t blocks_x, int blocks_y, int blocks_z, size_t shared_bytes, A... args) {
    if (code_ == 0) code_ = launch(kernel, blocks_x, blocks_y, blocks_z, shared_bytes, stream_, args...);
  }

  template <typename Kernel, typename... A>
  void rows_launch(Kernel wide, Kernel narrow, A... args) {
    run(wide_ ? wide : narrow, row_blocks(shape_), 1, 1, 0, shape_, args...);
  }

  template <Dense dense_a, Dense dense_b, typename Epilogue>
  void multiply(const ProductShape& shape, const Operand<T>& a, const Operand<T>& b, const Epilogue& epilogue) {
    if (code_ == 0) code_ = product<dense_a, dense_b, precision>(shape, shape_.tokens, a, b, epilogue, stream_);
  }

  void finish_sums(int chunks, int64_t columns, int groups, const float* parts, void* out) {
    run(finish_sums_kernel<T>, blocks_for(columns, kThreads), 1, groups, 0, chunks, columns, parts,
        static_cast<T*>(out));
  }

  // `dense`: values side by side; all chunks lie within so many, or so many and a further such piece behind.
  Operand<T> operand(Rows<const T> rows, int64_t dense) const {
    const bool chunks = rows.token_stride % kChunk<T> == 0 && rows.batch_stride % kChunk<T> == 0 &&
                        dense % kChunk<T> == 0 && aligned(rows.data, 16);
    return {rows.data, rows.token_stride, rows.batch_stride, chunks};
  }
  Operand<T> weight(const T* data, int64_t rows, int64_t columns, int64_t dense) const {
    return operand(Rows<const T>{data, columns, rows * columns}, dense);
  }

  // `dense` as for an operand.
  template <typename U>
  static Matrix<U> matrix(Rows<U> rows, int64_t dense) {
    const bool chunks = rows.token_stride % kChunk<T> == 0 && rows.batch_stride % kChunk<T> == 0 &&
                        dense % kChunk<T> == 0 && aligned(rows.data, 16);
    return {rows.data, rows.token_stride, rows.batch_stride, chunks};
  }
  static Matrix<const T> row_per_token(const T* data, int64_t width, int64_t dense) {
    return matrix(Rows<const T>{data, 0, width}, dense);
  }

  ProductShape reduction() const { return {shape_.batch, shape_.dim, hidden_}; }
  AddEpilogue<T> add(const T* bias, Rows<const T> residual, Rows<T> out) const {
    return {row_per_token(bias, shape_.dim, shape_.dim), matrix(residual, shape_.dim), matrix(out, shape_.dim)};
  }

  const BlockShape shape_;
  const int64_t hidden_, inner_;
  const bool gated_, tanh_form_, wide_;
  const float epsilon_;
  const Dropout dropout_;
  const Stream stream_;
  int code_ = 0;
};

}  // namespace ps_cluster::rankmixer_cuda

#endif  // PS_CLUSTER_OPS_RANKMIXER_CUDA_STEPS_CUH_
