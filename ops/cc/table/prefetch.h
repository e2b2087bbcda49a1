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

// Keys whose lines are asked for at once. A prefetch waits until its page is found, which takes as long as the line
// where the table is far bigger than what the processor keeps of the page tables; several wait together only when they
// lie close behind one another in the program. So a walk first writes down what a group of keys needs and then asks for
// it in a loop of nothing else. Fewer keys leave the memory idle while rows are copied; many more ask for more lines
// than a core can wait for, which on the processors tried begins between ten and twenty-four.
constexpr int kPrefetchGroup = 12;

template <int kMost>
class PrefetchList {
 public:
  // Does nothing when the list is full.
  void Add(const void* at) {
    if (size_ < kMost) at_[size_++] = static_cast<const char*>(at);
  }
  void Clear() { size_ = 0; }
  // The first line of each.
  void Ask() const {
    for (int i = 0; i < size_; ++i) Prefetch(at_[i]);
  }
  // The lines behind the first, `lines` in all; nothing where the list is shorter.
  void AskRest(int i, int lines) const {
    if (i >= size_) return;
    for (int line = 1; line < lines; ++line) Prefetch(at_[i] + 64 * line);
  }

 private:
  int size_ = 0;
  const char* at_[kMost];
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_PREFETCH_H_
