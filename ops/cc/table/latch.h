// The lock of one sub-table, which those who only read need not take.
#ifndef PS_CLUSTER_OPS_TABLE_LATCH_H_
#define PS_CLUSTER_OPS_TABLE_LATCH_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace ps_cluster {

// A sequence lock. Held for microseconds, so that a waiter first spins; then it gives its core away, because the holder
// may have lost its own.
//
// Reading without it: take `Begin()`, read, and trust what was read only if `Unchanged()` then says so. Whatever is
// read in between may be half written; no pointer made of it may be followed before `Unchanged()`.
class Latch {
 public:
  using Version = uint32_t;

  void lock() {
    for (;;) {
      Version seen = version_.load(std::memory_order_relaxed);
      if ((seen & 1) == 0 && version_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) break;
      Wait();
    }
#if !defined(__SANITIZE_THREAD__)  // knows no fences, and then nobody reads without the latch
    std::atomic_thread_fence(std::memory_order_release);  // no write is seen before the odd version
#endif
  }
  void unlock() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  Version Begin() const { return version_.load(std::memory_order_acquire); }
  static bool Held(Version version) { return (version & 1) != 0; }
  bool Unchanged(Version version) const {
#if !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return version_.load(std::memory_order_relaxed) == version;
  }

 private:
  void Wait() const {
    for (int spins = 0; Held(version_.load(std::memory_order_relaxed)); ++spins) {
      if (spins < 200) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        sched_yield();
      }
    }
  }

  std::atomic<Version> version_{0};  // odd while held
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_LATCH_H_
