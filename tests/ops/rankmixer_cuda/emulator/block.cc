#include "block.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "fiber.h"

namespace emulator {

const dim3* thread_index;
dim3 block_index;

namespace {

struct Copy {
  void* to;
  const void* from;
  bool there;
  int group;
};

struct Thread {
  dim3 index;
  Fiber fiber;
  std::vector<Copy> copies;  // not made yet
  int groups = 0;            // committed
};

struct Warp {
  void* brought[kLanes];
  void (*all)(void* const*);
  int came = 0;
};

constexpr int kDamage = 1000, kStuck = 1001, kDiverged = 1002, kBadCopy = 1003;
constexpr size_t kGuardBytes = 4096;
constexpr unsigned char kNothing = 0xff;  // a NaN in every type of ours

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::deque<int> ready;
  std::vector<unsigned char> shared;  // with a guard on both sides
  size_t shared_bytes = 0;
  void* scheduler = nullptr;
  const std::function<void()>* body = nullptr;
  int current = 0, finished = 0, at_barrier = 0, code = 0;
  int order = 0;
  bool late = true;
  std::mt19937 chance;
};

Block block;

unsigned char* shared_begin() {
  const uintptr_t first = reinterpret_cast<uintptr_t>(block.shared.data()) + kGuardBytes;
  return reinterpret_cast<unsigned char*>((first + 127) / 128 * 128);
}

// Goes on with another thread that can, or, where none can, with the scheduler.
void switch_from(int thread) {
  void* next = block.scheduler;
  if (!block.ready.empty() && block.code == 0) {
    int chosen;
    if (block.order == 0) {
      chosen = block.ready.front();
      block.ready.pop_front();
    } else {
      if (block.order == 2) std::swap(block.ready[block.chance() % block.ready.size()], block.ready.back());
      chosen = block.ready.back();
      block.ready.pop_back();
    }
    if (chosen == thread) return;
    block.current = chosen;
    thread_index = &block.threads[chosen].index;
    next = block.threads[chosen].fiber.stack_pointer;
  }
  switch_stacks(thread < 0 ? &block.scheduler : &block.threads[thread].fiber.stack_pointer, next);
}

void run_thread() {
  const int me = block.current;
  (*block.body)();
  ++block.finished;
  switch_from(me);  // never to return
}

void make(const Copy& copy) {
  if (copy.there) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

void run_block() {
  std::fill(block.shared.begin(), block.shared.end(), kNothing);
  block.ready.clear();
  block.finished = block.at_barrier = 0;
  for (Warp& warp : block.warps) warp.came = 0;
  for (size_t i = 0; i < block.threads.size(); ++i) {
    Thread& thread = block.threads[i];
    thread.copies.clear();
    thread.groups = 0;
    thread.fiber.prepare(run_thread);
    block.ready.push_back(static_cast<int>(i));
  }
  switch_from(-1);
  if (block.code == 0 && block.finished != static_cast<int>(block.threads.size())) block.code = kStuck;
  const unsigned char* begin = shared_begin();
  const unsigned char* first = block.shared.data();
  const unsigned char* end = first + block.shared.size();
  const auto untouched = [](unsigned char byte) { return byte == kNothing; };
  if (!std::all_of(first, begin, untouched) || !std::all_of(begin + block.shared_bytes, end, untouched)) {
    block.code = kDamage;
  }
}

}  // namespace

int run(dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body) {
  if (static_cast<int>(block.threads.size()) != threads) {
    block.threads = std::vector<Thread>(threads);
    block.warps = std::vector<Warp>(threads / kLanes);
    for (int i = 0; i < threads; ++i) block.threads[i].index = dim3(i, 0, 0);
  }
  block.shared_bytes = shared_bytes;
  block.shared.resize(shared_bytes + 2 * kGuardBytes + 128);
  block.body = &body;
  block.code = 0;
  const int64_t count = static_cast<int64_t>(blocks.x) * blocks.y * blocks.z;
  for (int64_t i = 0; i < count && block.code == 0; ++i) {
    const int64_t at = block.order == 1 ? count - 1 - i : i;
    block_index = dim3(at % blocks.x, at / blocks.x % blocks.y, at / blocks.x / blocks.y);
    run_block();
  }
  return block.code;
}

const char* message(int code) {
  switch (code) {
    case kDamage:
      return "emulator: shared memory was written outside its bounds";
    case kStuck:
      return "emulator: some threads wait for others that have ended or wait elsewhere";
    case kDiverged:
      return "emulator: lanes of a warp do different things in common";
    case kBadCopy:
      return "emulator: an asynchronous copy is not aligned to 16 bytes";
  }
  return "emulator: no such code";
}

unsigned char* shared_memory() { return shared_begin(); }

void barrier() {
  const int me = block.current;
  if (++block.at_barrier == static_cast<int>(block.threads.size())) {
    block.at_barrier = 0;
    for (int i = 0; i < static_cast<int>(block.threads.size()); ++i) block.ready.push_back(i);
  }
  switch_from(me);
}

void together(void (*all)(void* const*), void* mine) {
  const int me = block.current;
  Warp& warp = block.warps[me / kLanes];
  if (warp.came > 0 && warp.all != all) block.code = kDiverged;
  warp.all = all;
  warp.brought[me % kLanes] = mine;
  if (++warp.came == kLanes) {
    warp.came = 0;
    all(warp.brought);
    for (int lane = 0; lane < kLanes; ++lane) block.ready.push_back(me / kLanes * kLanes + lane);
  }
  switch_from(me);
}

namespace {

struct Shuffle {
  unsigned lanes;
  int mask;
  float value, result;
};

struct Matrices {
  const void* row;
  uint32_t* words;
  bool transposed;
};

void shuffle_all(void* const* brought) {
  for (int lane = 0; lane < kLanes; ++lane) {
    Shuffle* mine = static_cast<Shuffle*>(brought[lane]);
    if (mine->lanes != 0xffffffffu) block.code = kDiverged;
    mine->result = static_cast<const Shuffle*>(brought[lane ^ mine->mask])->value;
  }
}

void load_all(void* const* brought) {
  const auto value = [&](int matrix, int row, int column) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const char*>(static_cast<Matrices*>(brought[matrix * 8 + row])->row) + column * 2, 2);
    return static_cast<uint32_t>(bits);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const Matrices* mine = static_cast<Matrices*>(brought[lane]);
    if (reinterpret_cast<uintptr_t>(mine->row) % 16 != 0) block.code = kBadCopy;
    const int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      mine->words[i] = mine->transposed ? value(i, column, row) | value(i, column + 1, row) << 16
                                        : value(i, row, column) | value(i, row, column + 1) << 16;
    }
  }
}

}  // namespace

float shuffle_xor(unsigned lanes, float value, int mask) {
  Shuffle mine{lanes, mask, value, 0};
  together(shuffle_all, &mine);
  return mine.result;
}

void ldmatrix(const void* row, uint32_t (&words)[4], bool transposed) {
  Matrices mine{row, words, transposed};
  together(load_all, &mine);
}

void copy_async(void* to, const void* from, bool there) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || (there && reinterpret_cast<uintptr_t>(from) % 16 != 0)) {
    block.code = kBadCopy;
  }
  Thread& thread = block.threads[block.current];
  const Copy copy{to, from, there, thread.groups};
  if (block.late) {
    thread.copies.push_back(copy);
  } else {
    make(copy);
  }
}

void commit_copies() { ++block.threads[block.current].groups; }

void wait_for_copies(int pending) {
  Thread& thread = block.threads[block.current];
  const auto due = [&](const Copy& copy) { return copy.group < thread.groups - pending; };
  for (const Copy& copy : thread.copies) {
    if (due(copy)) make(copy);
  }
  thread.copies.erase(std::remove_if(thread.copies.begin(), thread.copies.end(), due), thread.copies.end());
}

}  // namespace emulator

extern "C" void ps_cluster_emulator_order(int32_t order, uint32_t seed, int32_t late) {
  emulator::block.order = order;
  emulator::block.late = late != 0;
  emulator::block.chance.seed(seed);
}
