// What a table has to do, told by a plain map: one key at a time, one thread, no memory to save.
#ifndef PS_CLUSTER_TESTS_OPS_TABLE_MODEL_H_
#define PS_CLUSTER_TESTS_OPS_TABLE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "ops/cc/table/initial_value.h"
#include "ops/cc/table/table.h"

namespace ps_cluster {

constexpr float kMomentum = 0.5f;

struct ModelRow {
  int row_class = 0;
  uint32_t step = 0, hour = 0;
  uint32_t count = 0;       // class 0, or no half life
  float frequency = 0;      // with a half life
  std::vector<float> w, m;  // [dim of the class]

  bool operator==(const ModelRow& other) const {
    return row_class == other.row_class && step == other.step && hour == other.hour && count == other.count &&
           frequency == other.frequency && w == other.w && m == other.m;
  }
};

using ModelRows = std::unordered_map<int64_t, ModelRow>;

// Float32 values, momentum, and a Bloom filter in which no two ids meet.
class Model {
 public:
  explicit Model(const TableSpec& spec) : spec_(spec) {}

  ModelRows rows;               // as they lie in memory: expired ones too
  std::set<int64_t> changed;    // and there, since the last snapshot
  std::vector<int64_t> removed;
  int64_t evicted = 0;          // that had an embedding

  int width() const { return spec_.tiers.back().dim; }
  bool decays() const { return spec_.eviction.half_life_steps > 0; }

  bool Expired(const ModelRow& row, Now now) const {
    const EvictionSpec& rule = spec_.eviction;
    const int64_t age = std::max<int64_t>(0, int64_t{now.step} - row.step);
    if (rule.max_age_steps > 0 && row.step > 0 && age > rule.max_age_steps) return true;
    if (rule.max_age_hours > 0 && row.hour > 0 && int64_t{now.hour} - row.hour > rule.max_age_hours) return true;
    if (!decays() || rule.min_frequency == 0 || row.step == 0 || age == 0) return false;
    const double left = std::exp2(-static_cast<double>(age) / rule.half_life_steps);
    if (row.row_class == 0) return row.count * left < std::min(rule.min_frequency, 0.5);
    return row.frequency * left < rule.min_frequency;
  }

  std::vector<float> Pull(int64_t key, Now now, bool training) const {
    std::vector<float> out(width(), 0.0f);
    const auto found = rows.find(key);
    if (found != rows.end() && found->second.row_class > 0 && !Expired(found->second, now)) {
      std::copy(found->second.w.begin(), found->second.w.end(), out.begin());
      return out;
    }
    if (spec_.admission.kind != AdmissionKind::kNone) {
      std::fill(out.begin(), out.end(), spec_.admission.cold_value);
    } else if (training) {
      Initial(key, out.data());
    }
    return out;
  }

  // One step; `keys` may repeat.
  void Push(const std::vector<int64_t>& keys, const std::vector<uint32_t>& counts,
            const std::vector<float>& gradients, Now now, float rate) {
    if (spec_.eviction.max_age_hours == 0) now.hour = 0;  // is not kept
    std::set<int64_t> admitted;
    for (size_t i = 0; i < keys.size(); ++i) {
      Push(keys[i], counts[i], gradients.data() + i * width(), now, rate, &admitted);
    }
  }

  void Remove(int64_t key) {
    if (rows.erase(key) == 0) return;
    changed.erase(key);
    removed.push_back(key);
  }
  void Evict(int64_t key) {
    evicted += rows[key].row_class > 0;
    if (rows[key].row_class > 0) seen_.erase(key);
    Remove(key);
  }

  void Insert(int64_t key, const float* values) {
    auto found = rows.find(key);
    if (found == rows.end()) {
      found = rows.emplace(key, ModelRow()).first;
    }
    Widen(key, &found->second, static_cast<int>(spec_.tiers.size()));
    found->second.w.assign(values, values + width());
    changed.insert(key);
  }
  void Accumulate(int64_t key, const float* values, bool exists) {
    const auto found = rows.find(key);
    const bool has = found != rows.end() && found->second.row_class > 0;
    if (has != exists) return;
    if (!exists) return Insert(key, values);
    Widen(key, &found->second, static_cast<int>(spec_.tiers.size()));
    for (int j = 0; j < width(); ++j) found->second.w[j] += values[j];
    changed.insert(key);
  }

 private:
  void Initial(int64_t key, float* out) const {
    FillInitialValue(spec_.initializer, spec_.seed, spec_.salt, key, spec_.tiers[0].dim, out);
  }

  double Frequency(const ModelRow& row) const { return decays() && row.row_class > 0 ? row.frequency : row.count; }

  void Widen(int64_t key, ModelRow* row, int row_class) {
    if (row_class <= row->row_class) return;
    const int dim = spec_.tiers[row_class - 1].dim;
    if (row->row_class == 0) {
      row->w.assign(dim, 0.0f);
      Initial(key, row->w.data());
      if (decays()) {
        row->frequency = static_cast<float>(row->count);
        row->count = 0;
      }
    }
    row->w.resize(dim, 0.0f);
    row->m.resize(dim, 0.0f);
    row->row_class = row_class;
  }

  int ClassFor(double frequency) const {
    int row_class = 1;
    for (size_t t = 0; t < spec_.tiers.size(); ++t) {
      if (frequency >= spec_.tiers[t].min_frequency) row_class = static_cast<int>(t) + 1;
    }
    return row_class;
  }

  void Push(int64_t key, uint32_t count, const float* gradient, Now now, float rate, std::set<int64_t>* admitted) {
    if (rows.count(key) > 0 && Expired(rows[key], now)) Evict(key);
    const AdmissionSpec& admission = spec_.admission;
    if (rows.count(key) == 0) {
      if (admission.kind == AdmissionKind::kBloom) {
        uint32_t& seen = seen_[key];
        seen = std::min(admission.threshold, seen + count);
        if (seen < admission.threshold) return;
        count = std::max(count, seen);
      }
      rows[key].step = now.step;
      rows[key].hour = now.hour;
    }
    ModelRow& row = rows[key];
    changed.insert(key);
    if (decays() && row.row_class > 0) {
      const double age = std::max<int64_t>(0, int64_t{now.step} - row.step);
      const double left = age == 0 || row.step == 0 ? 1.0 : std::exp2(-age / spec_.eviction.half_life_steps);
      row.frequency = static_cast<float>(row.frequency * left + count);
    } else {
      row.count += count;
    }
    row.step = std::max(row.step, now.step);
    row.hour = std::max(row.hour, now.hour);
    if (row.row_class == 0) {
      if (admission.kind == AdmissionKind::kExact && row.count < admission.threshold) return;
      Widen(key, &row, ClassFor(row.count));
      if (admission.kind != AdmissionKind::kNone) {
        admitted->insert(key);
        return;
      }
    } else {
      Widen(key, &row, ClassFor(Frequency(row)));
    }
    if (admitted->count(key) > 0) return;
    for (size_t j = 0; j < row.w.size(); ++j) {
      row.m[j] = kMomentum * row.m[j] - rate * gradient[j];
      row.w[j] += row.m[j];
    }
  }

  const TableSpec spec_;
  std::map<int64_t, uint32_t> seen_;  // by the Bloom filter
};

// Puts the rows of a block into `rows`.
inline void TakeRows(const TableSpec& spec, const RowBlock& block, ModelRows* rows) {
  const int dim = block.row_class == 0 ? 0 : spec.tiers[block.row_class - 1].dim;
  const size_t bytes = 2 * dim * sizeof(float);
  for (int64_t i = 0; i < block.size(); ++i) {
    ModelRow row;
    row.row_class = block.row_class;
    row.step = block.meta[i].last_step;
    row.hour = block.meta[i].last_hour;
    if (spec.eviction.half_life_steps > 0 && block.row_class > 0) {
      std::memcpy(&row.frequency, &block.meta[i].frequency, 4);
    } else {
      row.count = block.meta[i].frequency;
    }
    if (dim > 0) {
      row.w.resize(dim);
      row.m.resize(dim);
      std::memcpy(row.w.data(), block.rows.data() + i * bytes, dim * sizeof(float));
      std::memcpy(row.m.data(), block.rows.data() + i * bytes + dim * sizeof(float), dim * sizeof(float));
    }
    (*rows)[block.keys[i]] = row;
  }
}

inline ModelRows AllRows(Table* table) {
  ModelRows rows;
  RowBlock block;
  int64_t given = 0;
  for (uint64_t cursor = 0; table->Export(&cursor, 100, &block); given += block.size()) {
    TakeRows(table->spec(), block, &rows);
  }
  return given == static_cast<int64_t>(rows.size()) ? rows : ModelRows();
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_TESTS_OPS_TABLE_MODEL_H_
