// Arrow's arrays as plain columns.
#ifndef PS_CLUSTER_OPS_ORC_ARROW_RAW_COLUMN_H_
#define PS_CLUSTER_OPS_ORC_ARROW_RAW_COLUMN_H_

#include <memory>

#include "arrow/array.h"
#include "ops/orc/reader/raw_rows.h"

namespace ps_cluster::orc {

// A view of `array`, which it keeps alive.
RawColumn ToRawColumn(const std::shared_ptr<arrow::Array>& array);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_ARROW_RAW_COLUMN_H_
