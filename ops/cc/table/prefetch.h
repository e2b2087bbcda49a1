// Asks for a cache line ahead of its use.
#ifndef PS_CLUSTER_OPS_TABLE_PREFETCH_H_
#define PS_CLUSTER_OPS_TABLE_PREFETCH_H_

namespace ps_cluster {

// To GCC, __builtin_prefetch has no effect: it takes a function that does nothing else for pure and drops its calls.
inline void Prefetch(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line);
#endif
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_PREFETCH_H_
