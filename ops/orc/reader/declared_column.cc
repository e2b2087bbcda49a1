#include "ops/orc/reader/declared_column.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace ps_cluster::orc {
namespace {

using Rows = std::vector<int32_t>;

const char* ExpectedValue(const DeclaredColumn& column) {
  switch (column.kind) {
    case DeclaredColumn::kInt64:
      return "an integer";
    case DeclaredColumn::kFloat32:
      return "a finite float32 number";
    default:
      return "a list of integers";
  }
}

WrongValue Wrong(const DeclaredColumn& column, int64_t position, const std::string& found) {
  return {position, std::string("expected ") + ExpectedValue(column) + ", found " + found};
}

std::string Shortest(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

// Calls `visit(i)` for each i whose row, which is not null, holds a number that is not finite as a float32, until it
// returns false.
template <typename Visit>
void EachNotFinite(const RawColumn& raw, const Rows& selected, Visit&& visit) {
  if (!IsFloating(raw.type)) return;
  WithValues(raw, [&](auto value) {
    bool finite = true;
    for (const int32_t row : selected) finite &= static_cast<bool>(std::isfinite(static_cast<float>(value(row))));
    if (finite) return;
    for (size_t i = 0; i < selected.size(); ++i) {
      const int32_t row = selected[i];
      if (!std::isfinite(static_cast<float>(value(row))) && raw.valid[row] && !visit(i)) return;
    }
  });
}

// Calls `visit(i, place)` for each i whose list, which is not null, has a null at `place`, until it returns false.
template <typename Visit>
void EachNullInside(const RawColumn& raw, const Rows& selected, Visit&& visit) {
  if (raw.items_valid.all()) return;
  for (size_t i = 0; i < selected.size(); ++i) {
    const int32_t row = selected[i];
    if (!raw.valid[row]) continue;
    for (int32_t at = raw.offsets[row]; at < raw.offsets[row + 1]; ++at) {
      if (raw.items_valid[at]) continue;
      if (!visit(i, at - raw.offsets[row])) return;
      break;
    }
  }
}

template <typename To>
void Convert(const RawColumn& raw, const Rows& selected, bool all, To* to) {
  WithValues(raw, [&](auto value) {
    const auto count = static_cast<int64_t>(selected.size());
    if (all) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(value(i));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(value(selected[i]));
    }
  });
}

// `from` is the file's own type, whose memory can be used when every row is kept and none is null.
template <typename To>
const To* Numbers(const RawColumn& raw, const Rows& selected, bool all, ValueType same, To missing, Buffer<To>* own,
                  std::shared_ptr<const void>* owner) {
  if (all && raw.type == same && raw.valid.all()) {
    *owner = raw.owner;
    return static_cast<const To*>(raw.values);
  }
  own->resize(selected.size());
  Convert(raw, selected, all, own->data());
  if (!raw.valid.all()) {
    for (size_t i = 0; i < selected.size(); ++i) {
      if (!raw.valid[selected[i]]) (*own)[i] = missing;
    }
  }
  return own->data();
}

void Lists(const DeclaredColumn& column, const RawColumn& raw, const Rows& selected, PartColumn* out) {
  const size_t count = selected.size();
  out->begins.resize(count);
  out->ends.resize(count);
  int64_t items = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t row = selected[i];
    const int32_t end = raw.offsets[row + 1];
    int32_t begin = raw.valid[row] ? raw.offsets[row] : end;
    if (column.max_length > 0) begin = static_cast<int32_t>(std::max<int64_t>(begin, end - column.max_length));
    out->begins[i] = begin;
    out->ends[i] = end;
    items += end - begin;
  }
  if (count == 0) return;
  // The decoder's memory is used as it is unless most of it would be kept for nothing.
  const int64_t decoded = raw.offsets[selected.back() + 1] - raw.offsets[0];
  if (raw.type == ValueType::kInt64 && 2 * items >= decoded) {
    out->int_values = static_cast<const int64_t*>(raw.values);
    out->owner = raw.owner;
    return;
  }
  out->ints.resize(items);
  WithValues(raw, [&](auto value) {
    int32_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      const int32_t begin = at;
      for (int32_t k = out->begins[i]; k < out->ends[i]; ++k) out->ints[at++] = static_cast<int64_t>(value(k));
      out->begins[i] = begin;
      out->ends[i] = at;
    }
  });
  out->int_values = out->ints.data();
}

}  // namespace

bool Accepts(const DeclaredColumn& column, const RawColumn& raw) {
  if (!raw.supported) return false;
  if (column.kind == DeclaredColumn::kInt64List) {
    return raw.is_list && !IsFloating(raw.type) && raw.type != ValueType::kBool;
  }
  return !raw.is_list && (column.kind == DeclaredColumn::kFloat32 || !IsFloating(raw.type));
}

const char* ExpectedType(const DeclaredColumn& column) {
  switch (column.kind) {
    case DeclaredColumn::kInt64:
      return "an integer or boolean";
    case DeclaredColumn::kFloat32:
      return "a number (float, double, integer or boolean)";
    default:
      return "an array of integers";
  }
}

WrongValue FirstWrong(const DeclaredColumn& column, const RawColumn& raw, const Rows& selected) {
  if (!column.has_missing && !raw.valid.all()) {
    for (const int32_t row : selected) {
      if (!raw.valid[row]) return Wrong(column, row, "null; declare a value for missing ones to read on");
    }
  }
  WrongValue wrong;
  if (column.kind == DeclaredColumn::kFloat32) {
    EachNotFinite(raw, selected, [&](size_t i) {
      double found = 0;
      WithValues(raw, [&](auto value) { found = static_cast<double>(value(selected[i])); });
      const std::string text = std::isnan(found)   ? "nan"
                               : std::isinf(found) ? (found > 0 ? "inf" : "-inf")
                                                   : Shortest(found);
      wrong = Wrong(column, selected[i], text);
      return false;
    });
  } else if (column.kind == DeclaredColumn::kInt64List) {
    EachNullInside(raw, selected, [&](size_t i, int32_t place) {
      wrong = Wrong(column, selected[i], "a null inside the list (position " + std::to_string(place) + ")");
      return false;
    });
  }
  return wrong;
}

bool MarkWrong(const DeclaredColumn& column, const RawColumn& raw, const Rows& selected, std::vector<uint8_t>* wrong) {
  bool any = false;
  const auto mark = [&](size_t i) {
    (*wrong)[i] = 1;
    any = true;
    return true;
  };
  if (!column.has_missing && !raw.valid.all()) {
    for (size_t i = 0; i < selected.size(); ++i) {
      if (!raw.valid[selected[i]]) mark(i);
    }
  }
  if (column.kind == DeclaredColumn::kFloat32) {
    EachNotFinite(raw, selected, mark);
  } else if (column.kind == DeclaredColumn::kInt64List) {
    EachNullInside(raw, selected, [&](size_t i, int32_t) { return mark(i); });
  }
  return any;
}

std::vector<int32_t> Nulls(const RawColumn& raw, const Rows& selected) {
  std::vector<int32_t> nulls;
  if (raw.valid.all()) return nulls;
  for (const int32_t row : selected) {
    if (!raw.valid[row]) nulls.push_back(row);
  }
  return nulls;
}

PartColumn Canonical(const DeclaredColumn& column, const RawColumn& raw, const Rows& selected, bool all) {
  PartColumn out;
  switch (column.kind) {
    case DeclaredColumn::kInt64:
      out.int_values =
          Numbers<int64_t>(raw, selected, all, ValueType::kInt64, column.missing_int, &out.ints, &out.owner);
      break;
    case DeclaredColumn::kFloat32:
      out.float_values =
          Numbers<float>(raw, selected, all, ValueType::kFloat, column.missing_float, &out.floats, &out.owner);
      break;
    default:
      Lists(column, raw, selected, &out);
  }
  return out;
}

}  // namespace ps_cluster::orc
