// Where the parts of a row lie in memory.
#ifndef PS_CLUSTER_OPS_TABLE_ROW_LAYOUT_H_
#define PS_CLUSTER_OPS_TABLE_ROW_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "ops/cc/table/table.h"
#include "ops/cc/table/table_spec.h"

namespace ps_cluster {

// What every row starts with. The hour of its last update lies behind it where the table evicts by hours.
struct RowHeader {
  int64_t key;
  uint32_t last_step;
  uint32_t frequency;
};

inline RowHeader* HeaderOf(char* row) { return reinterpret_cast<RowHeader*>(row); }
inline const RowHeader* HeaderOf(const char* row) { return reinterpret_cast<const RowHeader*>(row); }

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
