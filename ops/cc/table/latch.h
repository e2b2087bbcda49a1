// The lock of one sub-table.
#ifndef PS_CLUSTER_OPS_TABLE_LATCH_H_
#define PS_CLUSTER_OPS_TABLE_LATCH_H_

#include <sched.h>

#include <atomic>

namespace ps_cluster {

// Held for microseconds, so that a waiter first spins; then it gives its core away, because the holder may have lost
// its own.
class Latch {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) Wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void Wait() {
    for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
      if (spins < 200) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        sched_yield();
      }
    }
  }

  std::atomic<bool> held_{false};
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_LATCH_H_
