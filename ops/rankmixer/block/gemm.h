// Products of matrices on one core: C = A B or C += A B, with something done to each part of C once it is complete.
//
// All sums are float32, and each element of C adds its products in an order that depends on `k` only: whatever rows
// and columns of a product are computed together, by how many threads, its bits are the same (on one set of
// instructions).
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_H_

#include <cstdint>

#include "ops/rankmixer/block/number.h"

namespace ps_cluster {
namespace rankmixer {

// A matrix in memory. Element (i, j) lies at i * stride + j, of a transposed one at j * stride + i.
struct MatrixView {
  const void* data;
  int64_t stride;
  Number type = Number::kFloat32;
  bool transposed = false;

  // The part that begins with element (row, column).
  MatrixView From(int64_t row, int64_t column) const {
    const int64_t offset = transposed ? column * stride + row : row * stride + column;
    return {At(data, type, offset), stride, type, transposed};
  }
};

// Called with parts of C that are complete and still in the cache, each once: rows [row, row + rows) of columns
// [column, column + columns).
struct Epilogue {
  void (*run)(void* context, int64_t row, int64_t rows, int64_t column, int64_t columns) = nullptr;
  void* context = nullptr;
};

// One product: c [m, n] from a [m, k] and b [k, n]. With k = 0 the product is zero.
struct Product {
  int64_t m, n, k;
  MatrixView a, b;
  float* c;
  int64_t c_stride;
  // Whether the product is added to c or replaces it.
  bool accumulate = false;
  // Whether c is not read again soon: where it can, it is then written past the caches.
  bool stream = false;
  // What a and b are rounded to before they are multiplied: kFloat32 (nothing is lost) or kBfloat16, which is faster
  // where `Kernels::fast_bfloat16` and the same as kFloat32 elsewhere.
  Number factors = Number::kFloat32;
  Epilogue epilogue = {};
};

struct Kernels;

// Computes `product` on this thread; packs b, part by part, into memory that the thread keeps.
void Multiply(const Kernels& kernels, const Product& product);

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_GEMM_H_
