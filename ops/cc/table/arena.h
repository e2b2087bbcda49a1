// Memory for big tables: equal units cut from blocks of huge pages.
#ifndef PS_CLUSTER_OPS_TABLE_ARENA_H_
#define PS_CLUSTER_OPS_TABLE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/cc/table/readers.h"

namespace ps_cluster {

// Rows and indices take the same units, so that what one frees another can use whatever the table grows into. Blocks
// are aligned to 2 MB and asked for as huge pages: a lookup at random in small pages misses the TLB as often as the
// cache.
class Arena {
 public:
  explicit Arena(int64_t unit_bytes) : unit_bytes_(unit_bytes) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int64_t unit_bytes() const { return unit_bytes_; }
  // Of what is too small for units, and of `Inside`.
  Readers& readers() { return readers_; }
  // Not cleared. Throws std::bad_alloc.
  char* Take();
  void Give(char* unit);

 private:
  void Map();

  const int64_t unit_bytes_;
  Readers readers_;
  std::mutex mutex_;
  std::vector<std::pair<char*, int64_t>> blocks_;  // with their bytes
  int64_t mapped_bytes_ = 0;
  char* next_ = nullptr;  // of the newest block
  char* end_ = nullptr;
  std::vector<char*> free_;
  int64_t taken_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_ARENA_H_
