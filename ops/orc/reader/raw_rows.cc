#include "ops/orc/reader/raw_rows.h"

namespace ps_cluster::orc {
namespace {

int64_t Bytes(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return 0;  // bits are counted by `first_bit`
    case ValueType::kInt8:
      return 1;
    case ValueType::kInt16:
      return 2;
    case ValueType::kInt32:
    case ValueType::kFloat:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

RawColumn WithoutFirst(RawColumn column, int64_t rows) {
  column.valid.offset += rows;
  if (column.is_list) {
    column.offsets += rows;
  } else {
    column.values = static_cast<const uint8_t*>(column.values) + rows * Bytes(column.type);
    column.first_bit += rows;
  }
  return column;
}

}  // namespace ps_cluster::orc
