// Copies the rows of a batch into the memory of tensors.
#ifndef PS_CLUSTER_OPS_ORC_READER_GATHER_H_
#define PS_CLUSTER_OPS_ORC_READER_GATHER_H_

#include <cstdint>

#include "ops/orc/reader/batch_stream.h"

namespace ps_cluster::orc {

// Column number `column` of the output, [rows].
void GatherInts(const Batch& batch, int64_t column, int64_t* out);
void GatherFloats(const Batch& batch, int64_t column, float* out);
// Row splits of a list column, [rows + 1]; returns the number of items.
int64_t GatherSplits(const Batch& batch, int64_t column, int64_t* splits);
// The items of a list column, as many as `GatherSplits` found.
void GatherItems(const Batch& batch, int64_t column, int64_t* out);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_GATHER_H_
