#include "ops/orc/reader/read_plan.h"

#include <limits>

namespace ps_cluster::orc {
namespace {

Problem CheckPart(const Part& part, size_t files) {
  const StripeRange& range = part.range;
  const bool good = part.file >= 0 && part.file < static_cast<int64_t>(files) && range.stripe >= 0 &&
                    range.first_row >= 0 && range.start >= 0 && range.rows >= 1 &&
                    range.rows <= std::numeric_limits<int32_t>::max() && range.rows <= range.stripe_rows &&
                    range.start <= range.stripe_rows - range.rows;
  return good ? Problem() : Problem("parts: expected rows within a stripe of a file");
}

}  // namespace

Problem CheckPlan(const ReadPlan& plan) {
  const auto sources = static_cast<int64_t>(plan.sources.size());
  if (plan.batch_rows < 1) return Problem("batch_rows: expected at least 1");
  if (plan.epochs < 0) return Problem("epochs: expected at least 0");
  if (plan.shuffle_rows < 0) return Problem("shuffle_rows: expected at least 0");
  if (plan.interleave < 1) return Problem("interleave: expected at least 1");
  if (plan.decode_threads < 1) return Problem("decode_threads: expected at least 1");
  if (plan.parts.size() > std::numeric_limits<int32_t>::max()) return Problem("parts: expected fewer than 2^31");
  if (plan.columns.empty()) return Problem("columns: expected at least one");
  if (!plan.kept.empty() && plan.kept.size() != plan.parts.size()) return Problem("kept: expected one for each part");
  for (const DeclaredColumn& column : plan.columns) {
    if (column.source < 0 || column.source >= sources || column.kind < DeclaredColumn::kInt64 ||
        column.kind > DeclaredColumn::kInt64List || column.max_length < 0) {
      return Problem("columns: column " + column.name + " makes no sense");
    }
  }
  for (const Part& part : plan.parts) {
    Problem problem = CheckPart(part, plan.files.size());
    if (problem) return problem;
  }
  Problem problem = CheckProgram(plan.where, sources);
  if (problem) return problem;
  return CheckSampling(plan.sampling, sources);
}

}  // namespace ps_cluster::orc
