// Memory for what is computed in between, which each thread keeps: new pages are slow to get.
#ifndef PS_CLUSTER_OPS_RANKMIXER_BLOCK_SCRATCH_H_
#define PS_CLUSTER_OPS_RANKMIXER_BLOCK_SCRATCH_H_

#include <cstdint>

namespace ps_cluster {
namespace rankmixer {

class Scratch {
 public:
  // Uses that a thread has at the same time.
  enum Use { kProduct, kTile, kChunk, kUses };

  static Scratch& OfThread(Use use);

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // At least `bytes`, aligned to 64; with any content. Valid until the next call.
  void* Get(int64_t bytes);

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Cuts memory into arrays that begin at multiples of 64 bytes: once without memory to find how much is needed, then
// with it.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <class Type>
  Type* Array(int64_t count) {
    const int64_t at = bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(Type)) + 63) / 64 * 64;
    return memory_ == nullptr ? nullptr : reinterpret_cast<Type*>(memory_ + at);
  }

  int64_t bytes() const { return bytes_; }

 private:
  char* const memory_;
  int64_t bytes_ = 0;
};

// Numbers from row to row of a tile that is `columns` wide: rows at a multiple of a page would share their place in
// the first-level cache.
inline int64_t TileStride(int64_t columns) {
  const int64_t stride = (columns + 15) / 16 * 16;
  return stride % 256 == 0 ? stride + 16 : stride;
}

}  // namespace rankmixer
}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_BLOCK_SCRATCH_H_
