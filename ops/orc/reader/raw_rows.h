// Decoded rows as the file holds them: the plain interface between Arrow's side and the rest.
#ifndef PS_CLUSTER_OPS_ORC_READER_RAW_ROWS_H_
#define PS_CLUSTER_OPS_ORC_READER_RAW_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ps_cluster::orc {

enum class ValueType : uint8_t { kBool, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble };

inline bool IsFloating(ValueType type) { return type == ValueType::kFloat || type == ValueType::kDouble; }

// Bit i tells whether value i is there, not null.
struct Validity {
  const uint8_t* bits = nullptr;  // null: all are there
  int64_t offset = 0;             // of value 0, in bits

  bool all() const { return bits == nullptr; }
  bool operator[](int64_t i) const {
    return bits == nullptr || (bits[(offset + i) >> 3] >> ((offset + i) & 7) & 1) != 0;
  }
};

// One column; the pointers point into what `owner` keeps alive.
struct RawColumn {
  std::string type_name;   // in Arrow's words
  bool supported = false;  // a number, a boolean, or a list of one of them
  bool is_list = false;
  ValueType type = ValueType::kInt64;  // of the values; of the items for a list
  const void* values = nullptr;        // kBool: bits
  int64_t first_bit = 0;               // kBool: bit of value 0
  Validity valid;                      // of the rows
  const int32_t* offsets = nullptr;    // lists: [rows + 1], items of row i are values offsets[i] to offsets[i + 1]
  Validity items_valid;                // lists: of the values
  std::shared_ptr<const void> owner;
};

// The column without its first `rows` rows.
RawColumn WithoutFirst(RawColumn column, int64_t rows);

struct RawRows {
  int64_t rows = 0;
  std::vector<RawColumn> columns;
};

// Calls `visit` with a function that gives value i of `column` in its own C++ type.
template <typename Visit>
auto WithValues(const RawColumn& column, Visit&& visit) {
  const void* values = column.values;
  switch (column.type) {
    case ValueType::kBool: {
      const Validity bits{static_cast<const uint8_t*>(values), column.first_bit};
      return visit([bits](int64_t i) -> bool { return bits[i]; });
    }
    case ValueType::kInt8:
      return visit([values](int64_t i) { return static_cast<const int8_t*>(values)[i]; });
    case ValueType::kInt16:
      return visit([values](int64_t i) { return static_cast<const int16_t*>(values)[i]; });
    case ValueType::kInt32:
      return visit([values](int64_t i) { return static_cast<const int32_t*>(values)[i]; });
    case ValueType::kFloat:
      return visit([values](int64_t i) { return static_cast<const float*>(values)[i]; });
    case ValueType::kDouble:
      return visit([values](int64_t i) { return static_cast<const double*>(values)[i]; });
    default:
      return visit([values](int64_t i) { return static_cast<const int64_t*>(values)[i]; });
  }
}

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_RAW_ROWS_H_
