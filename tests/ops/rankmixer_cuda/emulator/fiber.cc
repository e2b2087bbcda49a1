#include "fiber.h"

// Registers that a function must leave as it found them go on the old stack and come from the new one.
#if defined(__x86_64__)
asm(R"(
.text
.type ps_cluster_emulator_switch, @function
ps_cluster_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#elif defined(__aarch64__)
asm(R"(
.text
.type ps_cluster_emulator_switch, %function
ps_cluster_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#else
#error "the emulator switches stacks on x86-64 and aarch64 only"
#endif

extern "C" void ps_cluster_emulator_switch(void** from, void* to) asm("ps_cluster_emulator_switch");

namespace emulator {

void switch_stacks(void** from, void* to) { ps_cluster_emulator_switch(from, to); }

void Fiber::prepare(void (*start)()) {
  if (stack_ == nullptr) stack_.reset(new unsigned char[kStackBytes]);
  const uintptr_t end = reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes) / 16 * 16;
#if defined(__x86_64__)
  // Six registers, where to return to, and what stands for the caller's return address: the stack is then as after a call.
  void** top = reinterpret_cast<void**>(end) - 8;
  for (int i = 0; i < 8; ++i) top[i] = nullptr;
  top[6] = reinterpret_cast<void*>(start);
#else
  void** top = reinterpret_cast<void**>(end - 160);
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(start);
#endif
  stack_pointer = top;
}

}  // namespace emulator
