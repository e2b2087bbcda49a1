// A thread of execution with a stack of its own that runs until it gives way.
#ifndef PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_FIBER_H_
#define PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_FIBER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace emulator {

// Leaves the running stack, noting in *from where to go on, for the one that `to` was noted for. ucontext does the same
// with two system calls, which would take most of a test's time.
void switch_stacks(void** from, void* to);

struct Fiber {
  void* stack_pointer = nullptr;

  // The next switch to this fiber calls `start`, which must not return.
  void prepare(void (*start)());

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  std::unique_ptr<unsigned char[]> stack_;
};

}  // namespace emulator

#endif  // PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_FIBER_H_
