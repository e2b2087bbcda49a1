// Shares a block's work among the threads of TensorFlow's own pool.
#ifndef PS_CLUSTER_OPS_RANKMIXER_KERNELS_POOL_EXECUTOR_H_
#define PS_CLUSTER_OPS_RANKMIXER_KERNELS_POOL_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "ops/rankmixer/block/executor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"

namespace ps_cluster {

class PoolExecutor : public rankmixer::Executor {
 public:
  explicit PoolExecutor(tensorflow::OpKernelContext* context)
      : workers_(*context->device()->tensorflow_cpu_worker_threads()) {}

  int64_t threads() const override { return workers_.num_threads; }

  // The calling thread works too, and waits for tasks that have begun only: it never depends on a thread of the pool
  // becoming free.
  void Run(int64_t count, const std::function<void(int64_t)>& task) const override {
    const int64_t helpers = std::min<int64_t>(threads(), count) - 1;
    if (helpers <= 0) {
      for (int64_t i = 0; i < count; ++i) task(i);
      return;
    }
    auto state = std::make_shared<State>(count, &task);
    for (int64_t i = 0; i < helpers; ++i) {
      workers_.workers->Schedule([state] { state->Work(); });
    }
    state->Work();
    state->Wait();
  }

 private:
  struct State {
    State(int64_t tasks, const std::function<void(int64_t)>* of) : count(tasks), task(of) {}

    // Takes tasks until none is left. `task` is alive for as long as one is not done.
    void Work() {
      int64_t mine = 0;
      for (int64_t i; (i = next.fetch_add(1)) < count; ++mine) (*task)(i);
      if (mine == 0) return;
      tensorflow::mutex_lock lock(mutex);
      done += mine;
      if (done == count) all_done.notify_all();
    }

    void Wait() {
      tensorflow::mutex_lock lock(mutex);
      while (done < count) all_done.wait(lock);
    }

    const int64_t count;
    const std::function<void(int64_t)>* const task;
    std::atomic<int64_t> next{0};
    tensorflow::mutex mutex;
    tensorflow::condition_variable all_done;
    int64_t done = 0;
  };

  const tensorflow::DeviceBase::CpuWorkerThreads& workers_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_KERNELS_POOL_EXECUTOR_H_
