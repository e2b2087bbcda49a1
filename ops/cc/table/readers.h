// Keeps memory alive for those who read it without a latch.
#ifndef PS_CLUSTER_OPS_TABLE_READERS_H_
#define PS_CLUSTER_OPS_TABLE_READERS_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace ps_cluster {

// Reclamation by epochs. A reader counts itself under the epoch it came in; memory that is retired in an epoch is freed
// when the readers of that epoch and the one before have left. Two lists and two counts are enough, because an epoch
// begins only when the readers of the last but one are gone.
class Readers {
 public:
  Readers() = default;
  ~Readers() {
    for (auto& list : retired_) FreeAll(&list);
  }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // While it lives, nothing is freed that could be reached when it was made.
  class Inside {
   public:
    explicit Inside(Readers* readers) {
      Slot& slot = readers->slots_[SlotOfThread()];
      for (;;) {
        const uint32_t epoch = readers->epoch_.load();
        count_ = &slot.inside[epoch & 1];
        count_->fetch_add(1);
        if (readers->epoch_.load() == epoch) return;
        count_->fetch_sub(1);
      }
    }
    ~Inside() { count_->fetch_sub(1, std::memory_order_release); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    std::atomic<int64_t>* count_;
  };

  // `memory` is of malloc and no longer reachable for who comes in from now on.
  void Retire(void* memory) {
    if (memory == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    retired_[epoch_.load() & 1].push_back(memory);
    // Twice: without readers what was just retired is freed at once.
    for (int times = 0; times < 2; ++times) {
      const uint32_t epoch = epoch_.load();
      const uint32_t before = (epoch + 1) & 1;
      for (const Slot& slot : slots_) {
        if (slot.inside[before].load() != 0) return;
      }
      FreeAll(&retired_[before]);
      epoch_.store(epoch + 1);
    }
  }

 private:
  static constexpr int kSlots = 16;

  struct alignas(64) Slot {
    std::atomic<int64_t> inside[2] = {};
  };

  static int SlotOfThread() {
    static std::atomic<int> next{0};
    thread_local const int slot = next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    return slot;
  }
  static void FreeAll(std::vector<void*>* list) {
    for (void* memory : *list) std::free(memory);
    list->clear();
  }

  std::atomic<uint32_t> epoch_{0};
  Slot slots_[kSlots];
  std::mutex mutex_;
  std::vector<void*> retired_[2];
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_READERS_H_
