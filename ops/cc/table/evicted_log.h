// The keys that were evicted lately.
#ifndef PS_CLUSTER_OPS_TABLE_EVICTED_LOG_H_
#define PS_CLUSTER_OPS_TABLE_EVICTED_LOG_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace ps_cluster {

class EvictedLog {
 public:
  void Add(int64_t key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (keys_.size() == kMost) keys_.pop_front();
    keys_.push_back(key);
  }
  // Oldest first; none is given twice.
  std::vector<int64_t> TakeAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> keys(keys_.begin(), keys_.end());
    keys_.clear();
    return keys;
  }

 private:
  static constexpr size_t kMost = 4096;
  std::mutex mutex_;
  std::deque<int64_t> keys_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_EVICTED_LOG_H_
