// The rows of one class in one sub-table, in slabs.
#ifndef PS_CLUSTER_OPS_TABLE_ROW_SLABS_H_
#define PS_CLUSTER_OPS_TABLE_ROW_SLABS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "ops/cc/table/arena.h"

namespace ps_cluster {

// Three bits a row lie before a slab's first row, in words of 64 rows that grow downwards.
struct RowBits {
  uint64_t live;
  uint64_t dirty;    // changed since the last snapshot that was committed
  uint64_t pending;  // the running snapshot has yet to take it
};

// What follows from a row's size and the arena's units.
struct SlabShape {
  uint64_t stride = 0;      // bytes from row to row
  uint32_t slab_rows = 0;   // of a slab at its full size
  bool from_arena = false;  // slabs of full size
  int shift = 0;            // bits of a row's number that tell where it lies in its slab
  uint32_t mask = 0;

  // `bases`: of the slabs' first rows.
  char* At(char* const* bases, uint32_t row) const { return bases[row >> shift] + uint64_t{row & mask} * stride; }
  RowBits* BitsAt(char* const* bases, uint32_t row) const {
    return reinterpret_cast<RowBits*>(bases[row >> shift]) - 1 - ((row & mask) >> 6);
  }
};

// A row never moves within its slab, so that its number stays good for its life. The first slab starts with a few
// rows and doubles, so that a tiny table stays tiny. Needs the sub-table's latch; `SlabShape::At` does not, with the
// number of a row that is there.
class RowSlabs {
 public:
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr int kNumberBits = 29;

  RowSlabs() = default;
  ~RowSlabs();
  RowSlabs(const RowSlabs&) = delete;
  RowSlabs& operator=(const RowSlabs&) = delete;
  static SlabShape ShapeOf(int64_t unit_bytes, int64_t stride);
  // `bases`: where the list of the slabs' first rows is to be found, for who looks rows up by `SlabShape::At`.
  void Init(Arena* arena, const SlabShape& shape, std::atomic<char**>* bases);

  char* At(uint32_t row) const { return shape_.At(bases_->load(std::memory_order_relaxed), row); }
  RowBits* BitsOf(uint32_t row) const { return shape_.BitsAt(bases_->load(std::memory_order_relaxed), row); }
  uint64_t Bit(uint32_t row) const { return uint64_t{1} << (row & shape_.mask & 63); }

  int64_t stride() const { return static_cast<int64_t>(shape_.stride); }
  int64_t live() const { return live_; }
  int64_t bytes() const { return bytes_; }

  // The number of a row that is now live, its memory as it happens to be; kNone when `Grow` is needed.
  uint32_t Take();
  void Free(uint32_t row);

  int64_t bytes_to_grow() const;
  void Grow();
  void Clear();

  // Slabs by position, for walks over all rows; a position may be empty.
  uint32_t num_slabs() const { return static_cast<uint32_t>(slabs_.size()); }
  uint32_t first_row(uint32_t slab) const { return slab << shape_.shift; }
  uint32_t slab_of(uint32_t row) const { return row >> shape_.shift; }
  int64_t live_in(uint32_t slab) const { return slabs_[slab].live; }
  uint32_t rows_in(uint32_t slab) const { return slabs_[slab].rows; }
  // The first row from number `row` on that has the bit, or kNone.
  uint32_t Next(uint32_t row, uint64_t RowBits::*bit) const;
  // Gives back the memory of a slab without live rows.
  void Release(uint32_t slab);
  template <class Change>
  void ForEachWord(const Change& change) {
    for (const Slab& slab : slabs_) {
      RowBits* const bits = reinterpret_cast<RowBits*>(slab.base);
      for (uint32_t word = 0; word * 64 < slab.rows; ++word) change(*(bits - 1 - word));
    }
  }

 private:
  struct Slab {
    char* base = nullptr;  // of the first row
    uint32_t rows = 0;     // it has room for
    uint32_t live = 0;
  };

  static int64_t BytesOf(int64_t rows, int64_t stride);
  static int64_t BytesBefore(int64_t rows);
  int64_t BytesOf(int64_t rows) const { return BytesOf(rows, stride()); }
  Slab Make(uint32_t rows) const;
  void Delete(const Slab& slab) const;
  uint32_t NextRows(uint32_t rows) const;
  void Put(uint32_t slab, const Slab& made);

  SlabShape shape_;
  std::atomic<char**>* bases_ = nullptr;
  size_t room_for_bases_ = 0;
  std::vector<Slab> slabs_;
  Arena* arena_ = nullptr;
  int64_t live_ = 0;
  int64_t room_ = 0;    // rows of all slabs
  int64_t bytes_ = 0;
  uint32_t hint_ = 0;   // no slab before it has a free row
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_ROW_SLABS_H_
