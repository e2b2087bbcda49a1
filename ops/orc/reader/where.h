// Conditions on rows, evaluated on raw columns: the programs that data/where/postfix.py writes.
#ifndef PS_CLUSTER_OPS_ORC_READER_WHERE_H_
#define PS_CLUSTER_OPS_ORC_READER_WHERE_H_

#include <cstdint>
#include <vector>

#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/raw_rows.h"

namespace ps_cluster::orc {

// In postfix form; see `data.where.Program` for the operations. Columns are positions in a `RawRows`.
struct WhereProgram {
  enum Op : int64_t { kCompare, kIn, kIsNull, kAnd, kOr, kNot };
  static constexpr int64_t kLastWithColumn = kIsNull;  // these operations have a column in `a`

  struct Step {
    int64_t op, a, b, c, d;
  };
  std::vector<Step> code;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  bool empty() const { return code.empty(); }
};

// Whether every column, constant and operand of `program` is there.
Problem CheckProgram(const WhereProgram& program, int64_t columns);

// 1 for every row for which `program`, checked and not empty, is true, else 0: [rows].
//
// The columns it needs must be supported and no lists.
std::vector<uint8_t> Evaluate(const WhereProgram& program, const RawRows& rows);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_WHERE_H_
