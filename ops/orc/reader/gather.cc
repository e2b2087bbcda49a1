#include "ops/orc/reader/gather.h"

#include <algorithm>
#include <vector>

namespace ps_cluster::orc {
namespace {

// Calls `visit(column of the part, first row, rows)` for each stretch of rows, in order.
template <typename Visit>
void EachStretch(const Batch& batch, int64_t column, Visit&& visit) {
  if (batch.order.empty()) {
    for (const Run& run : batch.runs) visit(run.part->columns[column], run.first, run.rows);
    return;
  }
  std::vector<const PartColumn*> columns;
  columns.reserve(batch.runs.size());
  for (const Run& run : batch.runs) columns.push_back(&run.part->columns[column]);
  for (const Batch::Row& row : batch.order) visit(*columns[row.run], row.row, 1);
}

template <typename T>
void Gather(const Batch& batch, int64_t column, const T* PartColumn::*values, T* out) {
  if (batch.order.empty()) {
    for (const Run& run : batch.runs) {
      const T* from = run.part->columns[column].*values;
      out = std::copy(from + run.first, from + run.first + run.rows, out);
    }
    return;
  }
  std::vector<const T*> bases;
  bases.reserve(batch.runs.size());
  for (const Run& run : batch.runs) bases.push_back(run.part->columns[column].*values);
  for (const Batch::Row& row : batch.order) *out++ = bases[row.run][row.row];
}

}  // namespace

void GatherInts(const Batch& batch, int64_t column, int64_t* out) {
  Gather(batch, column, &PartColumn::int_values, out);
}

void GatherFloats(const Batch& batch, int64_t column, float* out) {
  Gather(batch, column, &PartColumn::float_values, out);
}

int64_t GatherSplits(const Batch& batch, int64_t column, int64_t* splits) {
  int64_t at = 0;
  *splits++ = 0;
  EachStretch(batch, column, [&](const PartColumn& from, int64_t first, int64_t rows) {
    for (int64_t row = first; row < first + rows; ++row) *splits++ = at += from.ends[row] - from.begins[row];
  });
  return at;
}

void GatherItems(const Batch& batch, int64_t column, int64_t* out) {
  EachStretch(batch, column, [&](const PartColumn& from, int64_t first, int64_t rows) {
    int64_t row = first;
    while (row < first + rows) {
      const int32_t begin = from.begins[row];
      int32_t end = from.ends[row++];
      // Lists that lie one behind the other are copied at once.
      while (row < first + rows && from.begins[row] == end) end = from.ends[row++];
      out = std::copy(from.int_values + begin, from.int_values + end, out);
    }
  });
}

}  // namespace ps_cluster::orc
