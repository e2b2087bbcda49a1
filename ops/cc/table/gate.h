// Lets calls that change a table run side by side, and stops them all for the instant a snapshot begins.
#ifndef PS_CLUSTER_OPS_TABLE_GATE_H_
#define PS_CLUSTER_OPS_TABLE_GATE_H_

#include <condition_variable>
#include <mutex>

namespace ps_cluster {

// Unlike std::shared_mutex it never lets the exclusive side starve: who comes after it waits. Neither side may be
// taken twice by one thread.
class Gate {
 public:
  void lock_shared() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !closed_; });
    ++inside_;
  }
  void unlock_shared() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--inside_ == 0 && closed_) changed_.notify_all();
  }
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !closed_; });
    closed_ = true;
    changed_.wait(lock, [this] { return inside_ == 0; });
  }
  void unlock() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int inside_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_GATE_H_
