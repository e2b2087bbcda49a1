// The keys of a sub-table that occur most often.
#ifndef PS_CLUSTER_OPS_TABLE_HOT_KEYS_H_
#define PS_CLUSTER_OPS_TABLE_HOT_KEYS_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace ps_cluster {

// Asked at every update with the key's frequency, so that the list needs no counts of its own. Not thread-safe.
class HotKeys {
 public:
  explicit HotKeys(size_t most = 8) : most_(most) {}

  void Note(int64_t key, double frequency) {
    if (frequency > least_) Put(key, frequency);
  }
  void Forget(int64_t key, double frequency) {
    if (frequency >= least_) Drop(key);
  }
  void Clear() {
    keys_.clear();
    least_ = 0;
  }
  const std::vector<std::pair<int64_t, double>>& keys() const { return keys_; }  // in no order

 private:
  void Put(int64_t key, double frequency) {
    std::pair<int64_t, double>* place = nullptr;
    for (auto& entry : keys_) {
      if (entry.first == key) place = &entry;
    }
    if (place == nullptr && keys_.size() < most_) {
      keys_.emplace_back(key, frequency);
    } else {
      if (place == nullptr) place = Least();
      *place = {key, frequency};
    }
    least_ = keys_.size() < most_ ? 0 : Least()->second;
  }
  void Drop(int64_t key) {
    for (auto& entry : keys_) {
      if (entry.first != key) continue;
      entry = keys_.back();
      keys_.pop_back();
      least_ = 0;
      return;
    }
  }
  std::pair<int64_t, double>* Least() {
    auto* least = &keys_[0];
    for (auto& entry : keys_) {
      if (entry.second < least->second) least = &entry;
    }
    return least;
  }

  size_t most_;
  double least_ = 0;
  std::vector<std::pair<int64_t, double>> keys_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_HOT_KEYS_H_
