// Which rows are kept, and how much they count: the same bits as data/sampling.py.
#ifndef PS_CLUSTER_OPS_ORC_READER_SAMPLING_H_
#define PS_CLUSTER_OPS_ORC_READER_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/raw_rows.h"
#include "ops/orc/reader/where.h"

namespace ps_cluster::orc {

// One factor of the keep probability or of the weight of the rows it applies to.
struct SamplingFactor {
  enum Kind : int64_t { kKeep, kWeight };
  enum Rate : int64_t { kConstant, kSteps, kLookup };

  int64_t kind = kKeep;
  int64_t label = -1;  // it applies to: 0, 1, or -1 for any
  int64_t rate = kConstant;
  int64_t column = 0;             // kSteps, kLookup
  WhereProgram when;              // empty: applies to every row
  std::vector<double> table;      // values by position; the last is that of null and of unknown keys
  std::vector<double> log_table;  // their logarithms
  std::vector<double> bounds;     // kSteps: ascending, two fewer than `table`
  std::vector<int64_t> keys;      // kLookup: ascending, one fewer than `table`
};

struct Sampling {
  int64_t label = 0;  // column with 0 or 1
  uint64_t seed = 0;
  std::vector<SamplingFactor> factors;
  bool active = false;
};

// Whether every column, table and condition of `sampling` is there.
Problem CheckSampling(const Sampling& sampling, int64_t columns);

// Of the rows that were kept, [kept] each.
struct Sampled {
  std::vector<int32_t> rows;
  std::vector<float> weights;
  std::vector<float> offsets;
};

// Samples `candidates`, positions in `rows`, whose row 0 is row `first_row` of the file with key `file_key`.
Sampled Sample(const Sampling& sampling, const RawRows& rows, const std::vector<int32_t>& candidates, uint64_t file_key,
               int64_t first_row);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_SAMPLING_H_
