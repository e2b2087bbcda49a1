// How long a latch was held for something that is not the answer to a key.
#ifndef PS_CLUSTER_OPS_TABLE_PAUSE_H_
#define PS_CLUSTER_OPS_TABLE_PAUSE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ps_cluster {

// Raises `*longest_us` to its own life time.
class Pause {
 public:
  explicit Pause(int64_t* longest_us) : longest_us_(longest_us), start_(std::chrono::steady_clock::now()) {}
  ~Pause() {
    const auto passed = std::chrono::steady_clock::now() - start_;
    *longest_us_ =
        std::max<int64_t>(*longest_us_, std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  int64_t* const longest_us_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_PAUSE_H_
