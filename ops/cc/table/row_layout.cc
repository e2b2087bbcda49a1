#include "ops/cc/table/row_layout.h"

#include <cstring>

#include "ops/cc/table/half.h"

namespace ps_cluster {

RowLayout::RowLayout(const TableSpec& spec)
    : value_type_(spec.value_type), has_hour_(spec.eviction.max_age_hours > 0), header_bytes_(has_hour_ ? 20 : 16) {
  classes_.resize(spec.tiers.size() + 1);
  for (size_t c = 0; c < classes_.size(); ++c) {
    RowClass& row = classes_[c];
    row.dim = c == 0 ? 0 : spec.tiers[c - 1].dim;
    row.embedding_bytes = (int64_t{row.dim} * value_bytes() + 3) / 4 * 4;
    row.slot_values = int64_t{row.dim} * spec.optimizer.slots();
    row.row_bytes = row.embedding_bytes + 4 * row.slot_values;
    row.stride = (header_bytes_ + row.row_bytes + 7) / 8 * 8;
  }
}

void RowLayout::Decode(const char* values, int n, float* out) const {
  switch (value_type_) {
    case ValueType::kFloat32:
      std::memcpy(out, values, n * sizeof(float));
      return;
    case ValueType::kFloat16:
      HalfToFloat(reinterpret_cast<const uint16_t*>(values), n, out);
      return;
    case ValueType::kBfloat16:
      Bfloat16ToFloat(reinterpret_cast<const uint16_t*>(values), n, out);
      return;
  }
}

void RowLayout::Encode(const float* in, int n, char* values) const {
  switch (value_type_) {
    case ValueType::kFloat32:
      std::memcpy(values, in, n * sizeof(float));
      return;
    case ValueType::kFloat16:
      FloatToHalf(in, n, reinterpret_cast<uint16_t*>(values));
      return;
    case ValueType::kBfloat16:
      FloatToBfloat16(in, n, reinterpret_cast<uint16_t*>(values));
      return;
  }
}

void AppendRow(const RowLayout& layout, const char* row, RowBlock* block) {
  block->keys.push_back(HeaderOf(row)->key);
  block->meta.push_back(layout.Meta(row));
  const char* const values = layout.Values(row);
  block->rows.insert(block->rows.end(), values, values + layout.of(block->row_class).row_bytes);
}

}  // namespace ps_cluster
