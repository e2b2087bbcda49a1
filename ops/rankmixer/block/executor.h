// How the parts of a block's work are shared among threads.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_EXECUTOR_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_EXECUTOR_H_

#include <cstdint>
#include <functional>

namespace ps_cluster {
namespace rankmixer {

class Executor {
 public:
  virtual ~Executor() = default;
  // Threads that may work at the same time. No result depends on it.
  virtual int64_t threads() const = 0;
  // Calls task(i) for all i in [0, count), in any order and at the same time; returns when all are done.
  virtual void Run(int64_t count, const std::function<void(int64_t)>& task) const = 0;
};

class SerialExecutor : public Executor {
 public:
  int64_t threads() const override { return 1; }
  void Run(int64_t count, const std::function<void(int64_t)>& task) const override {
    for (int64_t i = 0; i < count; ++i) task(i);
  }
};

// Calls task(first, count) for parts of [0, total) of at most `most`.
template <class Task>
void RunParts(const Executor& executor, int64_t total, int64_t most, const Task& task) {
  executor.Run((total + most - 1) / most, [&](int64_t part) {
    const int64_t first = part * most;
    task(first, total - first < most ? total - first : most);
  });
}

// Size of the parts of [0, total), multiples of `multiple`, that give each thread about `parts` of them.
inline int64_t PartSize(int64_t total, int64_t threads, int64_t parts, int64_t multiple) {
  const int64_t wanted = threads == 1 ? 1 : threads * parts;
  const int64_t size = (total + wanted - 1) / wanted;
  return size <= multiple ? multiple : (size + multiple - 1) / multiple * multiple;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_EXECUTOR_H_
