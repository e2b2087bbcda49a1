// What a dataset reads: everything the op was given, checked.
#ifndef PS_CLUSTER_OPS_ORC_READER_READ_PLAN_H_
#define PS_CLUSTER_OPS_ORC_READER_READ_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/orc/reader/declared_column.h"
#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/sampling.h"
#include "ops/orc/reader/stripe_file.h"
#include "ops/orc/reader/where.h"

namespace ps_cluster::orc {

struct InputFile {
  std::string path;
  uint64_t key = 0;  // what sampling tells its rows from those of other files by
};

struct Part {
  int64_t file = 0;  // position in `ReadPlan.files`
  StripeRange range;  // from its first row to its last
  int64_t rows = 0;  // every `step`th of the range
  int64_t step = 1;
};

struct ReadPlan {
  std::vector<InputFile> files;
  std::vector<Part> parts;
  std::vector<int64_t> kept;  // rows that each part gives, where they are known exactly; else empty

  std::vector<std::string> sources;  // names of the columns that are decoded
  std::vector<bool> needed_first;    // by source: `where` needs it
  std::vector<DeclaredColumn> columns;
  WhereProgram where;
  Sampling sampling;
  bool skip_bad = false;
  bool verify = true;

  int64_t batch_rows = 1;
  int64_t epochs = 1;
  int64_t shuffle_rows = 0;
  uint64_t seed = 0;
  int64_t interleave = 1;
  bool drop_remainder = false;
  int64_t decode_threads = 1;

  bool shuffled() const { return shuffle_rows > 0; }
  // Declared ones and those that sampling adds.
  int64_t output_columns() const { return static_cast<int64_t>(columns.size()) + (sampling.active ? 2 : 0); }
};

// Whether the figures of `plan` fit each other.
Problem CheckPlan(const ReadPlan& plan);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_READ_PLAN_H_
