#include "ops/orc/kernels/plan_inputs.h"

#include <algorithm>

#include "tensorflow/core/framework/tensor.h"

namespace ps_cluster::orc {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

// Gives the numbers of a flat tensor piece by piece.
template <typename T>
class Pieces {
 public:
  Pieces(const char* name, const Tensor& tensor) : name_(name), all_(tensor.flat<T>()) {}

  Status Take(int64_t count, std::vector<T>* out) {
    if (count < 0 || count > all_.size() - at_) {
      return InvalidArgument(name_, ": expected ", count, " more, found ", all_.size() - at_);
    }
    out->assign(all_.data() + at_, all_.data() + at_ + count);
    at_ += count;
    return tensorflow::OkStatus();
  }

 private:
  const char* name_;
  typename tensorflow::TTypes<T>::ConstFlat all_;
  int64_t at_ = 0;
};

Status CheckMatrix(const char* name, const Tensor& tensor, int64_t columns) {
  if (tensor.dims() == 2 && tensor.dim_size(1) == columns) return tensorflow::OkStatus();
  return InvalidArgument(name, ": expected a shape [n, ", columns, "], found ", tensor.shape().DebugString());
}

Status CheckSize(const char* name, int64_t expected, int64_t found) {
  if (expected == found) return tensorflow::OkStatus();
  return InvalidArgument(name, ": expected ", expected, " entries, found ", found);
}

Status ReadFiles(const Tensor& paths, const Tensor& keys, ReadPlan* plan) {
  TF_RETURN_IF_ERROR(CheckSize("file_keys", paths.NumElements(), keys.NumElements()));
  for (int64_t f = 0; f < paths.NumElements(); ++f) {
    plan->files.push_back(
        {std::string(paths.flat<tensorflow::tstring>()(f)), static_cast<uint64_t>(keys.flat<int64_t>()(f))});
  }
  return tensorflow::OkStatus();
}

Status ReadParts(const Tensor& parts, const Tensor& kept, ReadPlan* plan) {
  TF_RETURN_IF_ERROR(CheckMatrix("parts", parts, 7));
  const auto rows = parts.matrix<int64_t>();
  for (int64_t p = 0; p < parts.dim_size(0); ++p) {
    const int64_t count = rows(p, 5), step = rows(p, 6);
    int64_t span;
    if (count < 1 || step < 1 || __builtin_mul_overflow(count - 1, step, &span) ||
        __builtin_add_overflow(span, 1, &span)) {
      return InvalidArgument("parts: expected at least one row and a step of at least 1, found ", count, " and ", step);
    }
    plan->parts.push_back({rows(p, 0), {rows(p, 1), rows(p, 2), rows(p, 3), rows(p, 4), span}, count, step});
  }
  const auto numbers = kept.flat<int64_t>();
  plan->kept.assign(numbers.data(), numbers.data() + numbers.size());
  return tensorflow::OkStatus();
}

Status ReadColumns(const Tensor& columns, const Tensor& missing_floats, const std::vector<std::string>& names,
                   ReadPlan* plan) {
  TF_RETURN_IF_ERROR(CheckMatrix("columns", columns, 5));
  TF_RETURN_IF_ERROR(CheckSize("columns", names.size(), columns.dim_size(0)));
  TF_RETURN_IF_ERROR(CheckSize("missing_floats", names.size(), missing_floats.NumElements()));
  const auto rows = columns.matrix<int64_t>();
  for (size_t c = 0; c < names.size(); ++c) {
    DeclaredColumn column;
    column.name = names[c];
    column.source = rows(c, 0);
    column.kind = static_cast<DeclaredColumn::Kind>(rows(c, 1));
    column.has_missing = rows(c, 2) != 0;
    column.missing_int = rows(c, 3);
    column.missing_float = missing_floats.flat<float>()(c);
    column.max_length = rows(c, 4);
    plan->columns.push_back(std::move(column));
  }
  return tensorflow::OkStatus();
}

Status ReadConditions(const Tensor& steps, const Tensor& ints, const Tensor& floats, const std::vector<int64_t>& sizes,
                      std::vector<WhereProgram>* conditions) {
  TF_RETURN_IF_ERROR(CheckMatrix("condition_steps", steps, 5));
  if (sizes.size() % 3 != 0) return InvalidArgument("condition_sizes: expected three for each condition");
  Pieces<int64_t> all_steps("condition_steps", steps), all_ints("condition_ints", ints);
  Pieces<double> all_floats("condition_floats", floats);
  for (size_t s = 0; s < sizes.size(); s += 3) {
    WhereProgram condition;
    std::vector<int64_t> code;
    if (sizes[s] < 1 || sizes[s] > steps.dim_size(0)) return InvalidArgument("condition_sizes: ", sizes[s], " steps");
    TF_RETURN_IF_ERROR(all_steps.Take(5 * sizes[s], &code));
    for (size_t i = 0; i < code.size(); i += 5) {
      condition.code.push_back({code[i], code[i + 1], code[i + 2], code[i + 3], code[i + 4]});
    }
    TF_RETURN_IF_ERROR(all_ints.Take(sizes[s + 1], &condition.ints));
    TF_RETURN_IF_ERROR(all_floats.Take(sizes[s + 2], &condition.floats));
    conditions->push_back(std::move(condition));
  }
  return tensorflow::OkStatus();
}

Status ReadFactors(const tensorflow::OpInputList& inputs, const std::vector<WhereProgram>& conditions,
                   Sampling* sampling) {
  TF_RETURN_IF_ERROR(CheckMatrix("factors", inputs[9], 7));
  Pieces<double> tables("factor_tables", inputs[10]), log_tables("factor_log_tables", inputs[11]);
  Pieces<double> bounds("factor_bounds", inputs[12]);
  Pieces<int64_t> keys("factor_keys", inputs[13]);
  const auto rows = inputs[9].matrix<int64_t>();
  for (int64_t f = 0; f < inputs[9].dim_size(0); ++f) {
    SamplingFactor factor;
    factor.kind = rows(f, 0);
    factor.label = rows(f, 1);
    factor.rate = rows(f, 2);
    factor.column = rows(f, 3);
    const int64_t condition = rows(f, 4);
    if (condition >= static_cast<int64_t>(conditions.size())) return InvalidArgument("factors: condition ", condition);
    if (condition >= 0) factor.when = conditions[condition];
    TF_RETURN_IF_ERROR(tables.Take(rows(f, 5), &factor.table));
    TF_RETURN_IF_ERROR(log_tables.Take(rows(f, 5), &factor.log_table));
    TF_RETURN_IF_ERROR(bounds.Take(factor.rate == SamplingFactor::kSteps ? rows(f, 6) : 0, &factor.bounds));
    TF_RETURN_IF_ERROR(keys.Take(factor.rate == SamplingFactor::kLookup ? rows(f, 6) : 0, &factor.keys));
    sampling->factors.push_back(std::move(factor));
  }
  return tensorflow::OkStatus();
}

}  // namespace

Status ReadAttributes(OpKernelConstruction* ctx, PlanAttributes* out) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("sources", &out->sources));
  TF_RETURN_IF_ERROR(ctx->GetAttr("names", &out->names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("needed_first", &out->needed_first));
  TF_RETURN_IF_ERROR(ctx->GetAttr("condition_sizes", &out->condition_sizes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("filtered", &out->filtered));
  TF_RETURN_IF_ERROR(ctx->GetAttr("sampled", &out->sampled));
  TF_RETURN_IF_ERROR(ctx->GetAttr("label", &out->label));
  TF_RETURN_IF_ERROR(ctx->GetAttr("sampling_seed", &out->sampling_seed));
  TF_RETURN_IF_ERROR(ctx->GetAttr("batch_rows", &out->batch_rows));
  TF_RETURN_IF_ERROR(ctx->GetAttr("epochs", &out->epochs));
  TF_RETURN_IF_ERROR(ctx->GetAttr("shuffle_rows", &out->shuffle_rows));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seed", &out->seed));
  TF_RETURN_IF_ERROR(ctx->GetAttr("interleave", &out->interleave));
  TF_RETURN_IF_ERROR(ctx->GetAttr("drop_remainder", &out->drop_remainder));
  TF_RETURN_IF_ERROR(ctx->GetAttr("skip_bad", &out->skip_bad));
  TF_RETURN_IF_ERROR(ctx->GetAttr("verify", &out->verify));
  TF_RETURN_IF_ERROR(ctx->GetAttr("decode_threads", &out->decode_threads));
  TF_RETURN_IF_ERROR(ctx->GetAttr("start_epoch", &out->start.epoch));
  TF_RETURN_IF_ERROR(ctx->GetAttr("start_row", &out->start.row));
  return ctx->GetAttr("batches", &out->batches);
}

Status MakePlan(const tensorflow::OpInputList& inputs, const PlanAttributes& attributes, ReadPlan* plan) {
  TF_RETURN_IF_ERROR(ReadFiles(inputs[0], inputs[1], plan));
  TF_RETURN_IF_ERROR(ReadParts(inputs[2], inputs[3], plan));
  TF_RETURN_IF_ERROR(ReadColumns(inputs[4], inputs[5], attributes.names, plan));
  plan->sources = attributes.sources;
  plan->needed_first = attributes.needed_first;
  TF_RETURN_IF_ERROR(CheckSize("needed_first", plan->sources.size(), plan->needed_first.size()));
  std::vector<WhereProgram> conditions;
  TF_RETURN_IF_ERROR(ReadConditions(inputs[6], inputs[7], inputs[8], attributes.condition_sizes, &conditions));
  if (attributes.filtered) {
    if (conditions.empty()) return InvalidArgument("condition_sizes: expected a condition on rows, found none");
    plan->where = conditions[0];
    for (const WhereProgram::Step& step : plan->where.code) {
      const bool late = step.op <= WhereProgram::kLastWithColumn && step.a >= 0 &&
                        step.a < static_cast<int64_t>(plan->sources.size()) && !plan->needed_first[step.a];
      if (late) return InvalidArgument("needed_first: expected column ", plan->sources[step.a], " to be");
    }
  }
  plan->sampling.active = attributes.sampled;
  plan->sampling.label = attributes.label;
  plan->sampling.seed = static_cast<uint64_t>(attributes.sampling_seed);
  if (attributes.sampled) TF_RETURN_IF_ERROR(ReadFactors(inputs, conditions, &plan->sampling));
  plan->skip_bad = attributes.skip_bad;
  plan->verify = attributes.verify;
  plan->batch_rows = attributes.batch_rows;
  plan->epochs = attributes.epochs;
  plan->shuffle_rows = attributes.shuffle_rows;
  plan->seed = static_cast<uint64_t>(attributes.seed);
  plan->interleave = attributes.interleave;
  plan->drop_remainder = attributes.drop_remainder;
  plan->decode_threads = attributes.decode_threads;
  const Problem problem = CheckPlan(*plan);
  return problem ? InvalidArgument(problem.text()) : tensorflow::OkStatus();
}

}  // namespace ps_cluster::orc
