// From a part of a stripe to its rows: decoded, filtered, canonical, sampled; the same as data/read/part_reader.py.
#ifndef PS_CLUSTER_OPS_ORC_READER_PART_READER_H_
#define PS_CLUSTER_OPS_ORC_READER_PART_READER_H_

#include "ops/orc/reader/file_pool.h"
#include "ops/orc/reader/part_rows.h"
#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/read_plan.h"

namespace ps_cluster::orc {

// Reads one part. With `plan.skip_bad` a problem of the data is counted as rows lost instead of returned.
//
// The columns that `where` needs are decoded first, and the others only from the first to the last row for which it is
// true.
Problem ReadPart(const ReadPlan& plan, const Part& part, FilePool* files, PartRows* rows);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_PART_READER_H_
