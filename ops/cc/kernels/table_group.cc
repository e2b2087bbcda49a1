// Tables that travel together, as one PS sees them.
#include "ops/cc/kernels/table_group.h"

namespace ps_cluster {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

Status TableGroup::Init(OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_tables", &num_tables_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dim", &dim_));
  return packed_.Init(ctx, num_tables_, dim_);
}

Status TableGroup::Tables(OpKernelContext* ctx, std::vector<GroupTable>* tables) const {
  tables->resize(num_tables_);
  for (int t = 0; t < num_tables_; ++t) {
    GroupTable& one = (*tables)[t];
    TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, t), &one.table));
    one.native = dynamic_cast<NativeTable*>(one.table.get());
    if (one.native != nullptr) {
      if (one.native->table().width() != dim_) {
        return InvalidArgument("tables[", t, "]: expected embeddings of ", dim_, " values, found ",
                               one.native->table().width());
      }
    } else if (one.table->key_dtype() != tensorflow::DT_INT64 || one.table->value_dtype() != tensorflow::DT_FLOAT ||
               one.table->value_shape().num_elements() != packed_.row_floats()) {
      return InvalidArgument("tables[", t, "]: expected int64 keys and rows of ", packed_.row_floats(),
                             " float32, found ", tensorflow::DataTypeString(one.table->key_dtype()),
                             " keys and rows of ", one.table->value_shape().num_elements(), " ",
                             tensorflow::DataTypeString(one.table->value_dtype()));
    }
  }
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster
