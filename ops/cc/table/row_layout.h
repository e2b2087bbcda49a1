// Where the parts of a row lie in memory.
#ifndef PS_CLUSTER_OPS_TABLE_ROW_LAYOUT_H_
#define PS_CLUSTER_OPS_TABLE_ROW_LAYOUT_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/cc/table/table.h"
#include "ops/cc/table/table_spec.h"

namespace ps_cluster {

constexpr int kMostClasses = 8;  // a reference to a row has three bits for it

// What every row starts with. The hour of its last update lies behind it where the table evicts by hours.
struct RowHeader {
  int64_t key;
  uint32_t last_step;
  uint32_t frequency;
};

inline RowHeader* HeaderOf(char* row) { return reinterpret_cast<RowHeader*>(row); }
inline const RowHeader* HeaderOf(const char* row) { return reinterpret_cast<const RowHeader*>(row); }

// For short rows: without the call that `memcpy` is, and in words that are as wide as the machine's.
inline void CopyBytes(const char* from, int64_t bytes, char* to) {
  for (; bytes >= 64; bytes -= 64, from += 64, to += 64) std::memcpy(to, from, 64);
  if (bytes & 32) {
    std::memcpy(to, from, 32);
    from += 32;
    to += 32;
  }
  if (bytes & 16) {
    std::memcpy(to, from, 16);
    from += 16;
    to += 16;
  }
  if (bytes & 8) {
    std::memcpy(to, from, 8);
    from += 8;
    to += 8;
  }
  if (bytes & 4) {
    std::memcpy(to, from, 4);
    from += 4;
    to += 4;
  }
  if (bytes & 2) std::memcpy(to, from, 2);
}

struct RowClass {
  int dim = 0;
  int64_t embedding_bytes = 0;  // padded to 4
  int64_t slot_values = 0;      // float32
  int64_t row_bytes = 0;        // embedding and slots
  int64_t stride = 0;           // header, row, padded to 8
};

class RowLayout {
 public:
  explicit RowLayout(const TableSpec& spec);

  int num_classes() const { return static_cast<int>(classes_.size()); }
  int widest() const { return num_classes() - 1; }
  const RowClass& of(int row_class) const { return classes_[row_class]; }
  ValueType value_type() const { return value_type_; }
  int value_bytes() const { return value_type_ == ValueType::kFloat32 ? 4 : 2; }

  int header_bytes() const { return header_bytes_; }
  char* Values(char* row) const { return row + header_bytes_; }
  const char* Values(const char* row) const { return row + header_bytes_; }
  float* Slots(int row_class, char* row) const {
    return reinterpret_cast<float*>(row + header_bytes_ + classes_[row_class].embedding_bytes);
  }

  uint32_t Hour(const char* row) const { return has_hour_ ? *reinterpret_cast<const uint32_t*>(row + 16) : 0; }
  void SetHour(char* row, uint32_t hour) const {
    if (has_hour_) *reinterpret_cast<uint32_t*>(row + 16) = hour;
  }
  RowMeta Meta(const char* row) const {
    return RowMeta{HeaderOf(row)->last_step, HeaderOf(row)->frequency, Hour(row)};
  }
  void SetMeta(char* row, const RowMeta& meta) const {
    HeaderOf(row)->last_step = meta.last_step;
    HeaderOf(row)->frequency = meta.frequency;
    SetHour(row, meta.last_hour);
  }

  // The first `n` values of an embedding from and to float32.
  void Decode(const char* values, int n, float* out) const;
  void Encode(const float* in, int n, char* values) const;

 private:
  ValueType value_type_;
  bool has_hour_;
  int header_bytes_;
  std::vector<RowClass> classes_;
};

// Adds a row to the end of `block`, whose class it has.
void AppendRow(const RowLayout& layout, const char* row, RowBlock* block);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_ROW_LAYOUT_H_
