#include "ops/orc/reader/part_reader.h"

#include <string>
#include <utility>
#include <vector>

namespace ps_cluster::orc {
namespace {

// A part of the stripe costs more per row than the whole stripe, so little is not worth leaving out.
constexpr double kNarrowBelow = 0.75;

class PartReading {
 public:
  PartReading(const ReadPlan& plan, const Part& part, StripeFile* file)
      : plan_(plan), file_(plan.files[part.file]), stripe_file_(file), range_(part.range), step_(part.step) {
    raw_.rows = range_.rows;
    raw_.columns.resize(plan.sources.size());
  }

  Problem Read(PartRows* out) {
    const bool filtered = !plan_.where.empty();
    Problem problem = DecodeSources(/*first=*/true);
    if (problem) return problem;
    all_ = true;
    if (filtered) {
      Select();
      if (selected_.empty()) return Problem();
      Narrow();
      problem = DecodeSources(/*first=*/false);
      if (problem) return problem;
    } else {
      selected_.reserve(raw_.rows / step_ + 1);
      for (int64_t i = 0; i < raw_.rows; i += step_) selected_.push_back(static_cast<int32_t>(i));
      all_ = step_ == 1;
    }
    problem = CheckTypes();
    if (problem) return problem;
    problem = TakeOutWrong(out);
    if (problem) return problem;
    Finish(out);
    return Problem();
  }

 private:
  // Without a condition all columns are needed first.
  Problem DecodeSources(bool first) {
    std::vector<std::string> names;
    std::vector<size_t> places;
    for (size_t s = 0; s < plan_.sources.size(); ++s) {
      if (first != (plan_.where.empty() || plan_.needed_first[s])) continue;
      names.push_back(plan_.sources[s]);
      places.push_back(s);
    }
    if (names.empty()) return Problem();
    std::vector<RawColumn> columns;
    Problem problem = stripe_file_->Decode(range_, names, &columns);
    if (problem) return problem;
    for (size_t i = 0; i < places.size(); ++i) raw_.columns[places[i]] = std::move(columns[i]);
    if (!first || plan_.where.empty()) return Problem();
    return CheckComparable(places);
  }

  Problem CheckComparable(const std::vector<size_t>& places) const {
    for (const size_t place : places) {
      const RawColumn& raw = raw_.columns[place];
      if (!raw.supported || raw.is_list) {
        return Changed(plan_.sources[place], "an integer, boolean, float or double, as where compares it", raw);
      }
    }
    return Problem();
  }

  void Select() {
    const std::vector<uint8_t> truth = Evaluate(plan_.where, raw_);
    for (int64_t i = 0; i < raw_.rows; i += step_) {
      if (truth[i]) selected_.push_back(static_cast<int32_t>(i));
    }
    all_ = static_cast<int64_t>(selected_.size()) == raw_.rows;
  }

  // Leaves out the rows before the first and after the last selected one.
  void Narrow() {
    const int64_t first = selected_.front();
    const int64_t rows = selected_.back() - first + 1;
    if (static_cast<double>(rows) > kNarrowBelow * static_cast<double>(raw_.rows)) return;
    for (RawColumn& column : raw_.columns) {
      if (column.supported) column = WithoutFirst(std::move(column), first);
    }
    for (int32_t& row : selected_) row -= static_cast<int32_t>(first);
    raw_.rows = rows;
    range_.start += first;
    range_.rows = rows;
    skipped_ = first;
    all_ = static_cast<int64_t>(selected_.size()) == rows;
  }

  Problem CheckTypes() const {
    for (const DeclaredColumn& column : plan_.columns) {
      const RawColumn& raw = raw_.columns[column.source];
      if (!Accepts(column, raw)) return Changed(column.name, ExpectedType(column), raw);
    }
    if (!plan_.sampling.active) return Problem();
    const auto check = [&](int64_t source, bool integer) {
      const RawColumn& raw = raw_.columns[source];
      const bool good = raw.supported && !raw.is_list && !(integer && IsFloating(raw.type));
      const char* expected = integer ? "an integer or boolean" : "a number or boolean";
      return good ? Problem() : Changed(plan_.sources[source], expected, raw);
    };
    Problem problem = check(plan_.sampling.label, false);
    for (const SamplingFactor& factor : plan_.sampling.factors) {
      if (!problem && factor.rate != SamplingFactor::kConstant) {
        problem = check(factor.column, factor.rate == SamplingFactor::kLookup);
      }
      for (const WhereProgram::Step& step : factor.when.code) {
        if (!problem && step.op <= WhereProgram::kLastWithColumn) problem = check(step.a, false);
      }
    }
    return problem;
  }

  Problem Changed(const std::string& name, const std::string& expected, const RawColumn& raw) const {
    return Problem(file_.path + ": column " + name + ": expected " + expected + ", found " + raw.type_name +
                   "; the file changed after it was checked");
  }

  Problem TakeOutWrong(PartRows* out) {
    if (!plan_.skip_bad) {
      for (const DeclaredColumn& column : plan_.columns) {
        const WrongValue wrong = FirstWrong(column, raw_.columns[column.source], selected_);
        if (wrong.position < 0) continue;
        const int64_t row = range_.first_row + range_.start + wrong.position;
        return Problem(file_.path + ": column " + column.name + ": row " + std::to_string(row) +
                       " (counted from 0): " + wrong.text);
      }
      return Problem();
    }
    std::vector<uint8_t> wrong(selected_.size(), 0);
    bool any = false;
    for (const DeclaredColumn& column : plan_.columns) {
      any |= MarkWrong(column, raw_.columns[column.source], selected_, &wrong);
    }
    if (!any) return Problem();
    std::vector<int32_t> good;
    for (size_t i = 0; i < selected_.size(); ++i) (wrong[i] ? out->lost : good).push_back(selected_[i]);
    selected_ = std::move(good);
    all_ = false;
    return Problem();
  }

  void Finish(PartRows* out) {
    const size_t declared = plan_.columns.size();
    std::vector<std::vector<int32_t>> nulls(declared);
    for (size_t c = 0; c < declared; ++c) nulls[c] = Nulls(raw_.columns[plan_.columns[c].source], selected_);
    Sampled sampled;
    if (plan_.sampling.active) {
      sampled = Sample(plan_.sampling, raw_, selected_, file_.key, range_.first_row + range_.start);
      all_ = all_ && sampled.rows.size() == selected_.size();
      selected_ = std::move(sampled.rows);
    }
    for (size_t c = 0; c < declared; ++c) {
      out->columns.push_back(Canonical(plan_.columns[c], raw_.columns[plan_.columns[c].source], selected_, all_));
      out->columns.back().nulls = std::move(nulls[c]);
    }
    if (plan_.sampling.active) {
      for (std::vector<float>* values : {&sampled.weights, &sampled.offsets}) {
        PartColumn column;
        column.floats.assign(values->begin(), values->end());
        column.float_values = column.floats.data();
        out->columns.push_back(std::move(column));
      }
    }
    out->rows = static_cast<int64_t>(selected_.size());
    out->all_kept = out->rows == out->part_rows;
    if (!out->all_kept) out->kept = std::move(selected_);
    if (skipped_ == 0 && step_ == 1) return;
    const auto to_part = [&](std::vector<int32_t>* positions) {
      for (int32_t& position : *positions) position = static_cast<int32_t>((position + skipped_) / step_);
    };
    to_part(&out->kept);
    to_part(&out->lost);
    for (PartColumn& column : out->columns) to_part(&column.nulls);
  }

  const ReadPlan& plan_;
  const InputFile& file_;
  StripeFile* const stripe_file_;
  StripeRange range_;
  const int64_t step_;
  RawRows raw_;
  std::vector<int32_t> selected_;  // positions in `raw_`, ascending
  bool all_ = false;               // whether `selected_` are all rows of `raw_`
  int64_t skipped_ = 0;            // rows of the range before row 0 of `raw_`, a multiple of the step
};

}  // namespace

Problem ReadPart(const ReadPlan& plan, const Part& part, FilePool* files, PartRows* rows) {
  const std::string& path = plan.files[part.file].path;
  rows->part_rows = part.rows;
  std::unique_ptr<StripeFile> file;
  Problem problem = files->Take(path, &file);
  if (!problem) {
    problem = PartReading(plan, part, file.get()).Read(rows);
    // A file that failed once is opened again.
    if (!problem) files->GiveBack(path, std::move(file));
  }
  if (!problem || !plan.skip_bad) return problem;
  *rows = PartRows();
  rows->part_rows = part.rows;
  rows->all_lost = true;
  return Problem();
}

}  // namespace ps_cluster::orc
