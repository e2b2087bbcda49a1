// What a declared column becomes, as data/columns.py says: types, missing values, longest lists.
#ifndef PS_CLUSTER_OPS_ORC_READER_DECLARED_COLUMN_H_
#define PS_CLUSTER_OPS_ORC_READER_DECLARED_COLUMN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/orc/reader/part_rows.h"
#include "ops/orc/reader/raw_rows.h"

namespace ps_cluster::orc {

struct DeclaredColumn {
  enum Kind : int64_t { kInt64, kFloat32, kInt64List };

  std::string name;
  int64_t source = 0;  // position in `RawRows.columns`
  Kind kind = kInt64;
  bool has_missing = false;  // a null stands for a value
  int64_t missing_int = 0;
  float missing_float = 0;
  int64_t max_length = 0;  // lists: keep the last so many items; 0: all
};

// Whether `raw` can be read as `column`.
bool Accepts(const DeclaredColumn& column, const RawColumn& raw);
// The types that `column` takes, in words.
const char* ExpectedType(const DeclaredColumn& column);

// A value that its column does not take.
struct WrongValue {
  int64_t position = -1;  // of the row in the `RawRows`; -1: there is none
  std::string text;       // what was expected and what was found
};

// The first wrong value of the rows `selected`. Nulls come first, as a column with a null anywhere needs a declaration.
WrongValue FirstWrong(const DeclaredColumn& column, const RawColumn& raw, const std::vector<int32_t>& selected);
// Sets `wrong[i]` for each of the rows `selected` that holds a wrong value; returns whether there are any.
bool MarkWrong(const DeclaredColumn& column, const RawColumn& raw, const std::vector<int32_t>& selected,
               std::vector<uint8_t>* wrong);

// Positions of the nulls among the rows `selected`.
std::vector<int32_t> Nulls(const RawColumn& raw, const std::vector<int32_t>& selected);

// The values of the rows `selected`, none of which is wrong, without `PartColumn.nulls`. `all`: they are all rows of
// `raw`.
PartColumn Canonical(const DeclaredColumn& column, const RawColumn& raw, const std::vector<int32_t>& selected,
                     bool all);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_DECLARED_COLUMN_H_
