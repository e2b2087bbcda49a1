// The native embedding table as a TensorFlow resource, usable wherever a lookup table is.
#ifndef PS_CLUSTER_OPS_KERNELS_NATIVE_TABLE_H_
#define PS_CLUSTER_OPS_KERNELS_NATIVE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/cc/table/table.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

using TablePtr = tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>;

tensorflow::DataType DataTypeOf(ValueType type);

// Runs `body`, which must not throw into TensorFlow.
template <typename Body>
tensorflow::Status Guarded(Body&& body) {
  try {
    body();
    return tensorflow::OkStatus();
  } catch (const std::bad_alloc&) {
    return tensorflow::errors::ResourceExhausted("table: no memory left");
  } catch (const std::invalid_argument& problem) {
    return tensorflow::errors::InvalidArgument(problem.what());
  } catch (const std::exception& problem) {
    return tensorflow::errors::Internal(problem.what());
  }
}

class NativeTable : public tensorflow::lookup::LookupInterface {
 public:
  // What a table was asked to be: attribute and value.
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  NativeTable(TableSpec spec, Attributes attributes);

  Table& table() { return table_; }
  const Attributes& attributes() const { return attributes_; }

  // Reclaims expired rows, a slice of a whole sweep of about 1,000 calls and of a millisecond; nothing where the
  // table has no rule of expiry. Several threads may call it: one works.
  void SweepSlice(Now now);

  // Copies the embeddings of a block's rows, zeros behind narrower ones: `[rows, width]` in the table's type.
  void CopyEmbeddings(const RowBlock& block, char* values) const;
  int64_t value_bytes() const { return value_bytes_; }  // of `[width]`

  // --- LookupInterface: the widest tier, no admission, no expiry -------------------------------------------------
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& keys, tensorflow::Tensor* values,
                          const tensorflow::Tensor& default_value) override;
  tensorflow::Status Insert(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& keys,
                            const tensorflow::Tensor& values) override;
  tensorflow::Status Remove(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& keys) override;
  tensorflow::Status ExportValues(tensorflow::OpKernelContext* ctx) override;
  tensorflow::Status ImportValues(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& keys,
                                  const tensorflow::Tensor& values) override;
  size_t size() const override { return table_.size(); }
  tensorflow::DataType key_dtype() const override { return tensorflow::DT_INT64; }
  tensorflow::DataType value_dtype() const override { return DataTypeOf(table_.spec().value_type); }
  tensorflow::TensorShape key_shape() const override { return tensorflow::TensorShape({}); }
  tensorflow::TensorShape value_shape() const override { return tensorflow::TensorShape({table_.width()}); }
  int64_t MemoryUsed() const override { return table_.Stats().bytes; }

 private:
  Table table_;
  const Attributes attributes_;
  const int64_t value_bytes_;
  std::atomic<bool> sweeping_{false};
  int64_t sweeps_ = 0;       // of the thread that sweeps
  int64_t slice_rows_ = 0;
};

// The native table behind input `index`; an error that names the input when it is another kind of table.
tensorflow::Status NativeTableFromInput(tensorflow::OpKernelContext* ctx, int index,
                                        tensorflow::core::RefCountPtr<NativeTable>* table);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_NATIVE_TABLE_H_
