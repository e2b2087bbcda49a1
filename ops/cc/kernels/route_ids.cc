// De-duplicates and counts the ids of a step and cuts them by owning PS.
#include <cstring>
#include <vector>

#include "ops/cc/table/hashing.h"
#include "ops/cc/kernels/request.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

// Keys in the order of their first occurrence, each once.
class UniqueKeys {
 public:
  explicit UniqueKeys(int64_t most) {
    size_t buckets = 64;
    while (buckets < 2 * static_cast<size_t>(most)) buckets *= 2;
    mask_ = buckets - 1;
    buckets_.assign(buckets, -1);
    keys_.reserve(most);
    tables_.reserve(most);
    occurrences_.reserve(most);
    owners_.reserve(most);
  }

  int32_t Add(int64_t key, int table, uint64_t hash, int num_ps) {
    for (uint64_t b = hash & mask_;; b = (b + 1) & mask_) {
      const int32_t found = buckets_[b];
      if (found < 0) {
        const int32_t index = static_cast<int32_t>(keys_.size());
        buckets_[b] = index;
        keys_.push_back(key);
        tables_.push_back(table);
        occurrences_.push_back(1);
        owners_.push_back(OwnerOf(hash, num_ps));
        return index;
      }
      if (keys_[found] == key && tables_[found] == table) {
        ++occurrences_[found];
        return found;
      }
    }
  }

  int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  int64_t key(int64_t i) const { return keys_[i]; }
  int table(int64_t i) const { return tables_[i]; }
  uint32_t occurrences(int64_t i) const { return occurrences_[i]; }
  int owner(int64_t i) const { return owners_[i]; }

 private:
  uint64_t mask_;
  std::vector<int32_t> buckets_;
  std::vector<int64_t> keys_;
  std::vector<int32_t> tables_;
  std::vector<int32_t> owners_;
  std::vector<uint32_t> occurrences_;
};

class RouteIds : public OpKernel {
 public:
  explicit RouteIds(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ps", &num_ps_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_of_feature", &table_of_feature_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("salts", &salts_));
    int num_features;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_features", &num_features));
    OP_REQUIRES(ctx, static_cast<int>(table_of_feature_.size()) == num_features,
                InvalidArgument("table_of_feature: expected ", num_features,
                                " values, found ", table_of_feature_.size()));
    for (const int table : table_of_feature_) {
      OP_REQUIRES(ctx, table >= 0 && table < static_cast<int>(salts_.size()),
                  InvalidArgument("table_of_feature: expected values below ",
                                  salts_.size(), ", found ", table));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& header = ctx->input(0);
    OP_REQUIRES(ctx, header.dims() == 1 && header.dim_size(0) == kHeaderWords,
                InvalidArgument("header: expected shape [", kHeaderWords, "], found ",
                                header.shape().DebugString()));
    OpInputList ids;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    int64_t total = 0;
    for (int f = 0; f < ids.size(); ++f) {
      OP_REQUIRES(ctx, ids[f].dims() == 1,
                  InvalidArgument("ids[", f, "]: expected a vector, found shape ",
                                  ids[f].shape().DebugString()));
      total += ids[f].NumElements();
    }
    OP_REQUIRES(ctx, total < (int64_t{1} << 31),
                InvalidArgument("ids: expected fewer than 2^31 in a step, found ", total));

    Tensor* positions_tensor = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_ps_, TensorShape({total}), &positions_tensor));
    int32_t* positions = positions_tensor->flat<int32_t>().data();

    UniqueKeys unique(total);
    int64_t next = 0;
    for (int f = 0; f < ids.size(); ++f) {
      const int table = table_of_feature_[f];
      const int64_t* keys = ids[f].flat<int64_t>().data();
      for (int64_t i = 0; i < ids[f].NumElements(); ++i) {
        positions[next++] = unique.Add(keys[i], table, HashKey(keys[i], salts_[table]), num_ps_);
      }
    }

    // Counting sort by (PS, table): stable, so the order depends on the ids only.
    const int num_tables = static_cast<int>(salts_.size());
    std::vector<int64_t> count(static_cast<size_t>(num_ps_) * num_tables, 0);
    for (int64_t u = 0; u < unique.size(); ++u) {
      ++count[unique.owner(u) * num_tables + unique.table(u)];
    }
    std::vector<int64_t> start(count.size());  // row among all PS' rows
    std::vector<int64_t*> keys_out(count.size());
    std::vector<uint32_t*> occurrences_out(count.size());
    int64_t row = 0;
    for (int p = 0; p < num_ps_; ++p) {
      int64_t num_keys = 0;
      for (int t = 0; t < num_tables; ++t) num_keys += count[p * num_tables + t];
      Tensor* request = nullptr;
      OP_REQUIRES_OK(
          ctx, ctx->allocate_output(p, TensorShape({kHeaderWords + num_tables + num_keys + OccurrenceWords(num_keys)}),
                                    &request));
      int64_t* words = request->flat<int64_t>().data();
      std::memcpy(words, header.flat<int64_t>().data(), kHeaderWords * sizeof(int64_t));
      int64_t* keys = words + kHeaderWords + num_tables;
      uint32_t* occurrences = reinterpret_cast<uint32_t*>(keys + num_keys);
      if (num_keys % 2 == 1) occurrences[num_keys] = 0;
      for (int t = 0; t < num_tables; ++t) {
        const int cell = p * num_tables + t;
        words[kHeaderWords + t] = count[cell];
        start[cell] = row;
        keys_out[cell] = keys;
        occurrences_out[cell] = occurrences;
        row += count[cell];
        keys += count[cell];
        occurrences += count[cell];
      }
    }
    std::vector<int32_t> row_of(unique.size());
    for (int64_t u = 0; u < unique.size(); ++u) {
      const int cell = unique.owner(u) * num_tables + unique.table(u);
      row_of[u] = static_cast<int32_t>(start[cell]++);
      *keys_out[cell]++ = unique.key(u);
      *occurrences_out[cell]++ = unique.occurrences(u);
    }
    for (int64_t i = 0; i < total; ++i) positions[i] = row_of[positions[i]];
  }

 private:
  int num_ps_;
  std::vector<int32_t> table_of_feature_;
  std::vector<int64_t> salts_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterRouteIds").Device(tensorflow::DEVICE_CPU), RouteIds);

}  // namespace
}  // namespace ps_cluster
