// All inputs of a ranker side by side: look-ups, pooling and concatenation in one pass over the batch.
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/rankmixer/kernels/table_inputs.h"
#include "ops/rankmixer/lookup/placement.h"
#include "ops/rankmixer/lookup/pooled.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace ps_cluster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

constexpr int64_t kCyclesOfAnId = 60;  // with its lines asked for in advance

template <typename T, typename Index>
class LookupConcat : public OpKernel {
 public:
  explicit LookupConcat(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_features, num_lists, num_given;
    std::vector<std::string> poolings;
    std::vector<int64_t> segments;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_features", &num_features));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_lists", &num_lists));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_given", &num_given));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_tables", &num_tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("poolings", &poolings));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_lengths", &max_lengths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("signed_log", &signed_log_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("segments", &segments));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("parts", &parts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("width", &width_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("names", &names_));
    OP_REQUIRES(ctx, num_features + num_given > 0, InvalidArgument("expected at least one feature or given input"));
    OP_REQUIRES_OK(ctx, Count("tables", tables_.size(), num_features));
    OP_REQUIRES_OK(ctx, Count("poolings", poolings.size(), num_features));
    OP_REQUIRES_OK(ctx, Count("max_lengths", max_lengths_.size(), num_features));
    OP_REQUIRES_OK(ctx, Count("signed_log", signed_log_.size(), num_given));
    OP_REQUIRES_OK(ctx, Count("names", names_.size(), num_features + num_given));
    int lists = 0;
    for (int f = 0; f < num_features; ++f) {
      OP_REQUIRES(ctx, tables_[f] >= 0 && tables_[f] < num_tables_,
                  InvalidArgument(names_[f], ": expected a table below ", num_tables_, ", found ", tables_[f]));
      OP_REQUIRES(ctx, max_lengths_[f] >= 0,
                  InvalidArgument(names_[f], ": expected a max_length of at least 0, found ", max_lengths_[f]));
      is_list_.push_back(poolings[f] != "id");
      lists += is_list_[f];
      poolings_.push_back(poolings[f] == "mean"    ? Pooling::kMean
                          : poolings[f] == "sqrtn" ? Pooling::kSqrtn
                                                   : Pooling::kSum);
    }
    OP_REQUIRES_OK(ctx, Count("lengths", num_lists, lists));
    OP_REQUIRES_OK(ctx, ReadSegments(segments));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList ids, lengths, given;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("lengths", &lengths));
    OP_REQUIRES_OK(ctx, ctx->input_list("given", &given));
    std::vector<FrozenTable<T, Index>> tables(num_tables_);
    OP_REQUIRES_OK(ctx, ReadTables(ctx, &tables));
    const Tensor& first = ids.size() > 0 ? ids[0] : given[0];
    OP_REQUIRES(ctx, first.dims() > 0, InvalidArgument(names_[0], ": expected the shape [batch, …], found []"));
    const int64_t batch = first.dim_size(0);
    std::vector<IdLists> lists(ids.size());  // an id of its own is no list: lengths is null then
    int64_t cycles = 0;
    for (int f = 0, list = 0; f < ids.size(); ++f) {
      if (is_list_[f]) {
        OP_REQUIRES_OK(ctx, ListsOf(names_[f], ids[f], lengths[list++], max_lengths_[f], &lists[f]));
      } else {
        OP_REQUIRES(ctx, ids[f].dims() == 1,
                    InvalidArgument(names_[f], ": expected ids [batch], found ", ids[f].shape().DebugString()));
        lists[f] = {ids[f].flat<int64_t>().data(), 1, nullptr, 0};
      }
      OP_REQUIRES(ctx, ids[f].dim_size(0) == batch,
                  InvalidArgument(names_[f], ": expected ", batch, " rows as in ", names_[0], ", found ",
                                  ids[f].dim_size(0)));
      const int64_t most = max_lengths_[f] > 0 ? std::min(max_lengths_[f], lists[f].longest) : lists[f].longest;
      const int64_t dim = tables[tables_[f]].dim;
      cycles += most * (kCyclesOfAnId + dim / 2);
      OP_REQUIRES(ctx, needed_[f] <= dim,
                  InvalidArgument(names_[f], ": expected a table at least ", needed_[f], " wide, found ", dim));
    }
    for (int g = 0; g < given.size(); ++g) {
      const std::string& name = names_[ids.size() + g];
      OP_REQUIRES(ctx, (given[g].dims() == 1 || given[g].dims() == 2) && given[g].dim_size(0) == batch,
                  InvalidArgument(name, ": expected the shape [", batch, "] or [", batch, ", width], found ",
                                  given[g].shape().DebugString()));
      const int64_t dim = given[g].dims() == 1 ? 1 : given[g].dim_size(1);
      cycles += 4 * dim;
      OP_REQUIRES(ctx, needed_[ids.size() + g] <= dim,
                  InvalidArgument(name, ": expected at least ", needed_[ids.size() + g], " columns, found ", dim));
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({parts_, batch, width_}), &output));
    const Matrix matrix{output->flat<float>().data(), parts_, batch, width_};
    const auto rows = [&](int64_t from, int64_t to) {
      if (has_gaps_) matrix.Clear(from, to);
      for (int f = 0; f < ids.size(); ++f) {
        const FrozenTable<T, Index>& table = tables[tables_[f]];
        if (is_list_[f]) {
          Pooled(table, lists[f], poolings_[f], from, to,
                 [&](int64_t row, const float* vector) { matrix.Put(row, vector, segments_[f]); });
        } else {
          PutIds(table, lists[f].ids, from, to, segments_[f], matrix);
        }
      }
      for (int g = 0; g < given.size(); ++g) PutGiven(given[g], signed_log_[g], from, to, segments_[ids.size() + g], matrix);
    };
    const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(threads->num_threads, threads->workers, batch, cycles + parts_ * width_ / 4, rows);
  }

 private:
  static Status Count(const char* attribute, int64_t found, int64_t expected) {
    if (found == expected) return tensorflow::OkStatus();
    return InvalidArgument(attribute, ": expected ", expected, ", found ", found);
  }

  Status ReadSegments(const std::vector<int64_t>& flat) {
    if (flat.size() % 5 != 0) return InvalidArgument("segments: expected five numbers each, found ", flat.size());
    segments_.resize(names_.size());
    needed_.assign(names_.size(), 0);
    std::vector<bool> taken(parts_ * width_);
    int64_t covered = 0;
    for (size_t i = 0; i < flat.size(); i += 5) {
      const int64_t input = flat[i];
      const Segment s{flat[i + 1], flat[i + 2], flat[i + 3], flat[i + 4]};
      if (input < 0 || input >= static_cast<int64_t>(names_.size())) {
        return InvalidArgument("segments: expected an input below ", names_.size(), ", found ", input);
      }
      if (s.from < 0 || s.count < 1 || s.part < 0 || s.part >= parts_ || s.column < 0 || s.count > width_ ||
          s.column > width_ - s.count) {
        return InvalidArgument(names_[input], ": expected a segment within ", parts_, " parts of ", width_,
                               " columns, found ", s.count, " values from ", s.from, " in part ", s.part,
                               " at column ", s.column);
      }
      for (int64_t k = 0; k < s.count; ++k) {
        const int64_t at = s.part * width_ + s.column + k;
        if (taken[at]) {
          return InvalidArgument(names_[input], ": expected columns that nothing else takes, found column ",
                                 s.column + k, " of part ", s.part, " taken");
        }
        taken[at] = true;
      }
      covered += s.count;
      segments_[input].push_back(s);
      needed_[input] = std::max(needed_[input], s.from + s.count);
    }
    // Empty lists put nothing.
    has_gaps_ = covered < parts_ * width_ || std::count(is_list_.begin(), is_list_.end(), true) > 0;
    return tensorflow::OkStatus();
  }

  Status ReadTables(OpKernelContext* ctx, std::vector<FrozenTable<T, Index>>* tables) const {
    OpInputList keys, starts, rows, scales;
    TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
    TF_RETURN_IF_ERROR(ctx->input_list("starts", &starts));
    TF_RETURN_IF_ERROR(ctx->input_list("rows", &rows));
    TF_RETURN_IF_ERROR(ctx->input_list("scales", &scales));
    for (int t = 0; t < num_tables_; ++t) {
      const std::string name = absl::StrCat("table ", t);
      TF_RETURN_IF_ERROR(TableOf(name, keys[t], starts[t], rows[t], &(*tables)[t]));
      TF_RETURN_IF_ERROR(AddScales(name, scales, t, num_tables_, &(*tables)[t]));
    }
    return tensorflow::OkStatus();
  }

  static void PutIds(const FrozenTable<T, Index>& table, const int64_t* ids, int64_t from, int64_t to,
                     const std::vector<Segment>& segments, const Matrix& matrix) {
    const T* found[kBurst];
    std::vector<float> converted(std::is_same_v<T, float> ? 0 : table.dim);
    for (int64_t row = from; row < to; row += kBurst) {
      const int n = static_cast<int>(std::min<int64_t>(kBurst, to - row));
      table.Find(ids + row, n, found);
      for (int i = 0; i < n; ++i) matrix.Put(row + i, table.AsFloat(found[i], converted.data()), segments);
    }
  }

  static void PutGiven(const Tensor& given, bool signed_log, int64_t from, int64_t to,
                       const std::vector<Segment>& segments, const Matrix& matrix) {
    const int64_t dim = given.dims() == 1 ? 1 : given.dim_size(1);
    const float* values = given.flat<float>().data();
    std::vector<float> logs(signed_log ? dim : 0);
    for (int64_t row = from; row < to; ++row) {
      const float* vector = values + row * dim;
      if (signed_log) {
        for (int64_t k = 0; k < dim; ++k) logs[k] = std::copysign(std::log1p(std::abs(vector[k])), vector[k]);
        vector = logs.data();
      }
      matrix.Put(row, vector, segments);
    }
  }

  int num_tables_;
  std::vector<int64_t> tables_, max_lengths_;
  std::vector<bool> is_list_, signed_log_;
  std::vector<Pooling> poolings_;
  int64_t parts_, width_;
  std::vector<std::string> names_;
  std::vector<std::vector<Segment>> segments_;  // of each input
  std::vector<int64_t> needed_;                 // least width of each input's vector
  bool has_gaps_;                               // some columns may be left as they are
};

#define REGISTER_LOOKUP(T, Index)                                          \
  REGISTER_KERNEL_BUILDER(Name("PsClusterLookupConcat")                    \
                              .Device(tensorflow::DEVICE_CPU)              \
                              .TypeConstraint<T>("T")                      \
                              .TypeConstraint<Index>("Index"),             \
                          LookupConcat<T, Index>)
REGISTER_LOOKUP(float, int32_t);
REGISTER_LOOKUP(float, int64_t);
REGISTER_LOOKUP(Eigen::half, int32_t);
REGISTER_LOOKUP(Eigen::half, int64_t);
REGISTER_LOOKUP(int8_t, int32_t);
REGISTER_LOOKUP(int8_t, int64_t);
#undef REGISTER_LOOKUP

}  // namespace
}  // namespace ps_cluster
