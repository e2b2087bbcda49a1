#include "ops/orc/reader/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/orc/reader/order.h"

namespace ps_cluster::orc {
namespace {

// Place in the factor's table of each candidate.
std::vector<int64_t> Places(const SamplingFactor& factor, const RawRows& rows, const std::vector<int32_t>& candidates) {
  std::vector<int64_t> places(candidates.size(), 0);
  if (factor.rate == SamplingFactor::kConstant) return places;
  const RawColumn& column = rows.columns[factor.column];
  const auto unknown = static_cast<int64_t>(factor.table.size()) - 1;
  WithValues(column, [&](auto value) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const int32_t row = candidates[i];
      if (!column.valid[row]) {
        places[i] = unknown;
      } else if (factor.rate == SamplingFactor::kSteps) {
        // As long double an int64 beside a double is compared exactly. A NaN is above no bound.
        const long double x = value(row);
        const auto above = [](long double v, double bound) { return v < static_cast<long double>(bound); };
        const auto& bounds = factor.bounds;
        places[i] = std::isnan(x) ? 0 : std::upper_bound(bounds.begin(), bounds.end(), x, above) - bounds.begin();
      } else {
        const auto key = static_cast<int64_t>(value(row));
        const auto found = std::lower_bound(factor.keys.begin(), factor.keys.end(), key);
        places[i] = found != factor.keys.end() && *found == key ? found - factor.keys.begin() : unknown;
      }
    }
  });
  return places;
}

// 0, 1, or -1 for anything else.
std::vector<int8_t> Labels(const RawColumn& column, const std::vector<int32_t>& candidates) {
  std::vector<int8_t> labels(candidates.size(), -1);
  WithValues(column, [&](auto value) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const int32_t row = candidates[i];
      if (!column.valid[row]) continue;
      if (value(row) == 0) labels[i] = 0;
      if (value(row) == 1) labels[i] = 1;
    }
  });
  return labels;
}

// The number in [0, 1) that decides about a row.
double Uniform(uint64_t start, int64_t row) {
  return static_cast<double>(Mix(start + (static_cast<uint64_t>(row) + 1) * kGolden) >> 11) * 0x1.0p-53;
}

}  // namespace

Problem CheckSampling(const Sampling& sampling, int64_t columns) {
  if (!sampling.active) return Problem();
  const auto is_column = [&](int64_t position) { return position >= 0 && position < columns; };
  if (!is_column(sampling.label)) return Problem("sampling: expected a label column");
  for (const SamplingFactor& factor : sampling.factors) {
    const size_t size = factor.table.size();
    bool good = size == factor.log_table.size();
    if (factor.rate == SamplingFactor::kConstant) {
      good = good && size == 1;
    } else if (factor.rate == SamplingFactor::kSteps) {
      good = good && is_column(factor.column) && size == factor.bounds.size() + 2;
    } else {
      good = good && is_column(factor.column) && size == factor.keys.size() + 1;
    }
    if (!good) return Problem("sampling: a factor's table does not fit its rate");
    Problem problem = CheckProgram(factor.when, columns);
    if (problem) return problem;
  }
  return Problem();
}

Sampled Sample(const Sampling& sampling, const RawRows& rows, const std::vector<int32_t>& candidates, uint64_t file_key,
               int64_t first_row) {
  const size_t count = candidates.size();
  const std::vector<int8_t> labels = Labels(rows.columns[sampling.label], candidates);
  std::vector<double> keep(count, 1.0), weight(count, 1.0);
  std::vector<double> log_sums[2] = {std::vector<double>(count, 0.0), std::vector<double>(count, 0.0)};
  for (const SamplingFactor& factor : sampling.factors) {
    std::vector<uint8_t> applies;
    if (!factor.when.empty()) applies = Evaluate(factor.when, rows);
    const std::vector<int64_t> places = Places(factor, rows, candidates);
    std::vector<double>& product = factor.kind == SamplingFactor::kKeep ? keep : weight;
    for (size_t i = 0; i < count; ++i) {
      if (!applies.empty() && !applies[candidates[i]]) continue;
      for (int64_t label = 0; label < 2; ++label) {
        if (factor.label == -1 || factor.label == label) log_sums[label][i] += factor.log_table[places[i]];
      }
      if (labels[i] >= 0 && (factor.label == -1 || factor.label == labels[i])) product[i] *= factor.table[places[i]];
    }
  }
  Sampled sampled;
  const uint64_t start = Mix(file_key + sampling.seed * kGolden);
  for (size_t i = 0; i < count; ++i) {
    if (!(Uniform(start, first_row + candidates[i]) < keep[i])) continue;
    sampled.rows.push_back(candidates[i]);
    sampled.weights.push_back(static_cast<float>(weight[i]));
    const double offset = labels[i] >= 0 ? log_sums[0][i] - log_sums[1][i] : 0.0;
    sampled.offsets.push_back(static_cast<float>(offset));
  }
  return sampled;
}

}  // namespace ps_cluster::orc
