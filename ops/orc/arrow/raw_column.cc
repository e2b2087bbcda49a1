#include "ops/orc/arrow/raw_column.h"

#include <optional>

namespace ps_cluster::orc {
namespace {

std::optional<ValueType> TypeOf(const arrow::Array& array) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return ValueType::kBool;
    case arrow::Type::INT8:
      return ValueType::kInt8;
    case arrow::Type::INT16:
      return ValueType::kInt16;
    case arrow::Type::INT32:
      return ValueType::kInt32;
    case arrow::Type::INT64:
      return ValueType::kInt64;
    case arrow::Type::FLOAT:
      return ValueType::kFloat;
    case arrow::Type::DOUBLE:
      return ValueType::kDouble;
    default:
      return std::nullopt;
  }
}

Validity ValidityOf(const arrow::Array& array) {
  return array.null_count() == 0 ? Validity{} : Validity{array.null_bitmap_data(), array.offset()};
}

void SetValues(const arrow::Array& array, RawColumn* column) {
  const std::optional<ValueType> type = TypeOf(array);
  column->supported = type.has_value();
  if (!type) return;
  column->type = *type;
  const auto& data = *array.data();
  if (*type == ValueType::kBool) {
    column->values = data.GetValues<uint8_t>(1, 0);
    column->first_bit = data.offset;
    return;
  }
  const auto& fixed = static_cast<const arrow::FixedWidthType&>(*array.type());
  column->values = data.GetValues<uint8_t>(1, data.offset * (fixed.bit_width() / 8));
}

}  // namespace

RawColumn ToRawColumn(const std::shared_ptr<arrow::Array>& array) {
  RawColumn column;
  column.type_name = array->type()->ToString();
  column.owner = array;
  column.valid = ValidityOf(*array);
  if (array->type_id() == arrow::Type::LIST) {
    const auto& list = static_cast<const arrow::ListArray&>(*array);
    column.is_list = true;
    column.offsets = list.raw_value_offsets();
    column.items_valid = ValidityOf(*list.values());
    SetValues(*list.values(), &column);
  } else {
    SetValues(*array, &column);
  }
  return column;
}

}  // namespace ps_cluster::orc
