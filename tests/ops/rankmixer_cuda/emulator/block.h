// A block's threads, and how they wait for each other.
#ifndef PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_BLOCK_H_
#define PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulator {

constexpr int kLanes = 32;

extern const dim3* thread_index;  // of the running thread
extern dim3 block_index;

// Runs `body` as every thread of every block; 0 or a code for message().
int run(dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body);

// What went wrong first; lives until the next run.
const char* message(int code);

unsigned char* shared_memory();

void barrier();

// Waits until all 32 lanes of the warp have come, then runs `all` once with what each brought, by lane.
void together(void (*all)(void* const* brought), void* mine);

float shuffle_xor(unsigned lanes, float value, int mask);

// Four matrices into the lanes, as ldmatrix does.
void ldmatrix(const void* row, uint32_t (&words)[4], bool transposed);

// cp.async: zeros where not `there`.
void copy_async(void* to, const void* from, bool there);
void commit_copies();
void wait_for_copies(int pending);

}  // namespace emulator

// How the next runs go. order: 0 first come first served, 1 the last first, 2 by chance. late: asynchronous copies are made
// when they are waited for, else when they are started.
extern "C" void ps_cluster_emulator_order(int32_t order, uint32_t seed, int32_t late);

#endif  // PS_CLUSTER_TESTS_OPS_RANKMIXER_CUDA_EMULATOR_BLOCK_H_
