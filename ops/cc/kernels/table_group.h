// Tables that travel together, as one PS sees them.
#ifndef PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_
#define PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_

#include <cstdint>
#include <vector>

#include "ops/cc/kernels/native_table.h"
#include "ops/cc/kernels/packed_rows.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {

// A table of either engine.
struct GroupTable {
  TablePtr table;
  NativeTable* native = nullptr;  // the same table; null: TFRA's, with packed rows
};

// What pull and push have in common: their attributes.
class TableGroup {
 public:
  tensorflow::Status Init(tensorflow::OpKernelConstruction* ctx);

  int num_tables() const { return num_tables_; }
  int dim() const { return dim_; }
  const PackedRows& packed() const { return packed_; }

  // The tables behind the first inputs of `ctx`, checked to have embeddings of this width.
  tensorflow::Status Tables(tensorflow::OpKernelContext* ctx, std::vector<GroupTable>* tables) const;

 private:
  int num_tables_ = 0;
  int dim_ = 0;
  PackedRows packed_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_TABLE_GROUP_H_
