// Asking for a cache line before it is needed.
#ifndef PS_CLUSTER_OPS_TABLE_PREFETCH_H_
#define PS_CLUSTER_OPS_TABLE_PREFETCH_H_

namespace ps_cluster {

// Not `__builtin_prefetch`: to GCC a function that does nothing else has no effect, and it drops the call of it.
inline void Prefetch(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(at)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_PREFETCH_H_
