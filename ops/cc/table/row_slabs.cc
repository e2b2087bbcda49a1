#include "ops/cc/table/row_slabs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ps_cluster {
namespace {

constexpr int64_t kLine = 64;
constexpr uint32_t kFirstRows = 4;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

RowSlabs::~RowSlabs() {
  Clear();
  if (bases_ != nullptr) arena_->readers().Retire(bases_->load(std::memory_order_relaxed));
}

SlabShape RowSlabs::ShapeOf(int64_t unit_bytes, int64_t stride) {
  SlabShape shape;
  shape.stride = static_cast<uint64_t>(stride);
  int64_t rows = unit_bytes / stride;
  while (rows > 0 && BytesOf(rows, stride) > unit_bytes) --rows;
  shape.from_arena = rows >= kFirstRows;
  shape.slab_rows = shape.from_arena ? static_cast<uint32_t>(rows) : kFirstRows;
  while (uint32_t{1} << shape.shift < shape.slab_rows) ++shape.shift;
  shape.mask = (uint32_t{1} << shape.shift) - 1;
  return shape;
}

void RowSlabs::Init(Arena* arena, const SlabShape& shape, std::atomic<char**>* bases) {
  arena_ = arena;
  shape_ = shape;
  bases_ = bases;
}

int64_t RowSlabs::BytesBefore(int64_t rows) {
  return RoundUp(RoundUp(rows, 64) / 64 * static_cast<int64_t>(sizeof(RowBits)), kLine);
}

int64_t RowSlabs::BytesOf(int64_t rows, int64_t stride) { return RoundUp(BytesBefore(rows) + rows * stride, kLine); }

RowSlabs::Slab RowSlabs::Make(uint32_t rows) const {
  char* memory;
  if (shape_.from_arena && rows == shape_.slab_rows) {
    memory = arena_->Take();
  } else {
    memory = static_cast<char*>(std::aligned_alloc(kLine, BytesOf(rows)));
    if (memory == nullptr) throw std::bad_alloc();
  }
  std::memset(memory, 0, BytesBefore(rows));
  return Slab{memory + BytesBefore(rows), rows, 0};
}

void RowSlabs::Delete(const Slab& slab) const {
  if (slab.base == nullptr) return;
  char* const memory = slab.base - BytesBefore(slab.rows);
  if (shape_.from_arena && slab.rows == shape_.slab_rows) {
    arena_->Give(memory);
  } else {
    arena_->readers().Retire(memory);
  }
}

// Writes a slab to its position, which is in use or the next one.
void RowSlabs::Put(uint32_t slab, const Slab& made) {
  if (slab == slabs_.size()) slabs_.emplace_back();
  slabs_[slab] = made;
  char** bases = bases_->load(std::memory_order_relaxed);
  if (slab >= room_for_bases_) {
    char** const before = bases;
    const size_t room = std::max<size_t>(4, 2 * room_for_bases_);
    bases = static_cast<char**>(std::malloc(room * sizeof(char*)));
    if (bases == nullptr) throw std::bad_alloc();
    std::copy(before, before + slab, bases);
    bases_->store(bases, std::memory_order_release);
    room_for_bases_ = room;
    arena_->readers().Retire(before);
  }
  bases[slab] = made.base;
}

uint32_t RowSlabs::Take() {
  if (live_ == room_) return kNone;
  while (slabs_[hint_].live == slabs_[hint_].rows) ++hint_;
  Slab& slab = slabs_[hint_];
  RowBits* const bits = reinterpret_cast<RowBits*>(slab.base);
  for (uint32_t word = 0;; ++word) {
    RowBits& here = *(bits - 1 - word);
    if (~here.live == 0) continue;
    const uint32_t bit = __builtin_ctzll(~here.live);
    here.live |= uint64_t{1} << bit;
    ++slab.live;
    ++live_;
    return (hint_ << shape_.shift) + word * 64 + bit;
  }
}

void RowSlabs::Free(uint32_t row) {
  RowBits* const bits = BitsOf(row);
  const uint64_t bit = Bit(row);
  bits->live &= ~bit;
  bits->dirty &= ~bit;
  bits->pending &= ~bit;
  --slabs_[row >> shape_.shift].live;
  --live_;
  hint_ = std::min(hint_, row >> shape_.shift);
}

uint32_t RowSlabs::NextRows(uint32_t rows) const {
  const uint32_t doubled = std::max(kFirstRows, rows * 2);
  return doubled > shape_.slab_rows / 2 ? shape_.slab_rows : doubled;
}

int64_t RowSlabs::bytes_to_grow() const {
  if (slabs_.empty()) return BytesOf(NextRows(0));
  if (slabs_.size() == 1 && slabs_[0].base != nullptr && slabs_[0].rows < shape_.slab_rows) {
    return BytesOf(NextRows(slabs_[0].rows)) - BytesOf(slabs_[0].rows);
  }
  return BytesOf(shape_.slab_rows);
}

void RowSlabs::Grow() {
  bytes_ += bytes_to_grow();
  if (slabs_.empty()) {
    Put(0, Make(NextRows(0)));
    hint_ = 0;
    room_ += slabs_[0].rows;
  } else if (slabs_.size() == 1 && slabs_[0].base != nullptr && slabs_[0].rows < shape_.slab_rows) {
    Slab old = slabs_[0];
    Slab bigger = Make(NextRows(old.rows));
    const int64_t bits = BytesBefore(old.rows);
    std::memcpy(bigger.base - bits, old.base - bits, bits + old.rows * stride());
    bigger.live = old.live;
    room_ += bigger.rows - old.rows;
    Put(0, bigger);
    hint_ = 0;
    Delete(old);
  } else {
    uint32_t slab = 0;
    while (slab < slabs_.size() && slabs_[slab].base != nullptr) ++slab;
    Put(slab, Make(shape_.slab_rows));
    room_ += shape_.slab_rows;
    hint_ = std::min(hint_, slab);
  }
}

void RowSlabs::Clear() {
  for (const Slab& slab : slabs_) Delete(slab);
  slabs_.clear();
  live_ = room_ = bytes_ = 0;
  hint_ = 0;
}

uint32_t RowSlabs::Next(uint32_t row, uint64_t RowBits::*bit) const {
  uint32_t inside = row & shape_.mask;
  for (uint32_t slab = row >> shape_.shift; slab < slabs_.size(); ++slab, inside = 0) {
    if (slabs_[slab].live == 0) continue;
    const RowBits* const bits = reinterpret_cast<const RowBits*>(slabs_[slab].base);
    for (uint32_t word = inside >> 6; word * 64 < slabs_[slab].rows; ++word) {
      uint64_t have = (bits - 1 - word)->*bit;
      if (word == inside >> 6) have &= ~uint64_t{0} << (inside & 63);
      if (have != 0) return (slab << shape_.shift) + word * 64 + __builtin_ctzll(have);
    }
  }
  return kNone;
}

void RowSlabs::Release(uint32_t slab) {
  if (slabs_[slab].base == nullptr || slabs_[slab].live != 0) return;
  bytes_ -= BytesOf(slabs_[slab].rows);
  room_ -= slabs_[slab].rows;
  Delete(slabs_[slab]);
  slabs_[slab] = Slab();
  while (!slabs_.empty() && slabs_.back().base == nullptr) slabs_.pop_back();
}

}  // namespace ps_cluster
