// What a part of a stripe gives: its kept rows, in the types that training takes.
#ifndef PS_CLUSTER_OPS_ORC_READER_PART_ROWS_H_
#define PS_CLUSTER_OPS_ORC_READER_PART_ROWS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ps_cluster::orc {

// Leaves elements as they are found when a vector grows: all of them get written anyway.
template <typename T>
struct UninitializedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

template <typename T>
using Buffer = std::vector<T, UninitializedAllocator<T>>;

// One column of kept rows. The numbers lie in `ints` or `floats`, or, where the file holds them as they are wanted, in
// the decoder's memory, which `owner` keeps alive.
struct PartColumn {
  const int64_t* int_values = nullptr;  // [rows], of lists all items
  const float* float_values = nullptr;  // [rows]
  Buffer<int32_t> begins, ends;         // lists: [rows], items of row i are int_values begins[i] to ends[i]
  Buffer<int64_t> ints;
  Buffer<float> floats;
  std::shared_ptr<const void> owner;
  std::vector<int32_t> nulls;  // positions in the part, ascending, of nulls that were filled
};

struct PartRows {
  int64_t part_rows = 0;
  int64_t rows = 0;  // kept
  std::vector<PartColumn> columns;
  bool all_kept = false;
  std::vector<int32_t> kept;  // positions in the part, ascending; empty when all are
  std::vector<int32_t> lost;  // positions of rows that cannot be read, ascending
  bool all_lost = false;

  // Number of kept rows before position `position` of the part.
  int64_t KeptBefore(int64_t position) const;
  // Adds to `counts`, [1 + declared columns]: of positions `start` to `end`, rows lost, then nulls filled per column.
  void AddCounts(int64_t start, int64_t end, std::vector<int64_t>* counts) const;
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_PART_ROWS_H_
