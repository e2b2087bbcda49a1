#include "ops/orc/reader/where.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace ps_cluster::orc {
namespace {

enum Operator : int64_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
enum ConstantKind : int64_t { kInteger, kFloat };

constexpr uint8_t kFalse = 0, kTrue = 1, kUnknown = 2;

using Truth = std::vector<uint8_t>;

// Numbers of two kinds meet as long double, which holds every int64 and every double.
template <typename Value, typename Constant>
using Common = std::conditional_t<std::is_floating_point_v<Value> == std::is_floating_point_v<Constant>,
                                  std::conditional_t<std::is_floating_point_v<Value>, double, int64_t>, long double>;

template <typename Each>
Truth ForRows(const RawColumn& column, int64_t rows, Each&& each) {
  Truth truth(rows);
  for (int64_t i = 0; i < rows; ++i) truth[i] = each(i) ? kTrue : kFalse;
  if (!column.valid.all()) {
    for (int64_t i = 0; i < rows; ++i) {
      if (!column.valid[i]) truth[i] = kUnknown;
    }
  }
  return truth;
}

template <typename Constant>
Truth Compare(const RawColumn& column, int64_t rows, int64_t op, Constant constant) {
  return WithValues(column, [&](auto value) {
    using Both = Common<decltype(value(0)), Constant>;
    const Both bound = constant;
    auto at = [&](int64_t i) { return static_cast<Both>(value(i)); };
    switch (op) {
      case kEqual:
        return ForRows(column, rows, [&](int64_t i) { return at(i) == bound; });
      case kNotEqual:
        return ForRows(column, rows, [&](int64_t i) { return at(i) != bound; });
      case kLess:
        return ForRows(column, rows, [&](int64_t i) { return at(i) < bound; });
      case kLessEqual:
        return ForRows(column, rows, [&](int64_t i) { return at(i) <= bound; });
      case kGreater:
        return ForRows(column, rows, [&](int64_t i) { return at(i) > bound; });
      default:
        return ForRows(column, rows, [&](int64_t i) { return at(i) >= bound; });
    }
  });
}

template <typename Constant>
Truth In(const RawColumn& column, int64_t rows, const Constant* constants, int64_t count) {
  return WithValues(column, [&](auto value) {
    using Both = Common<decltype(value(0)), Constant>;
    std::vector<Both> members(constants, constants + count);
    if constexpr (!std::is_same_v<Both, int64_t>) {  // a NaN equals nothing and has no place in an order
      members.erase(std::remove_if(members.begin(), members.end(), [](Both m) { return m != m; }), members.end());
    }
    std::sort(members.begin(), members.end());
    return ForRows(column, rows, [&](int64_t i) {
      const auto wanted = static_cast<Both>(value(i));
      const auto found = std::lower_bound(members.begin(), members.end(), wanted);
      return found != members.end() && *found == wanted;
    });
  });
}

Truth IsNull(const RawColumn& column, int64_t rows) {
  Truth truth(rows, kFalse);
  for (int64_t i = 0; i < rows && !column.valid.all(); ++i) truth[i] = column.valid[i] ? kFalse : kTrue;
  return truth;
}

// AND is false as soon as one operand is (`deciding` = kFalse); OR is true as soon as one is.
void Join(uint8_t deciding, const Truth& right, Truth* left) {
  for (size_t i = 0; i < left->size(); ++i) {
    uint8_t& l = (*left)[i];
    const uint8_t r = right[i];
    if (l == deciding || r == deciding) {
      l = deciding;
    } else if (r == kUnknown) {
      l = kUnknown;
    }
  }
}

}  // namespace

Problem CheckProgram(const WhereProgram& program, int64_t columns) {
  int64_t depth = 0;
  const auto in_range = [](int64_t first, int64_t count, size_t size) {
    const auto limit = static_cast<int64_t>(size);
    return first >= 0 && count >= 1 && count <= limit && first <= limit - count;
  };
  const auto constants = [&](int64_t kind, int64_t first, int64_t count) {
    return (kind == kInteger && in_range(first, count, program.ints.size())) ||
           (kind == kFloat && in_range(first, count, program.floats.size()));
  };
  for (const WhereProgram::Step& step : program.code) {
    bool good = false;
    switch (step.op) {
      case WhereProgram::kCompare:
        good =
            in_range(step.a, 1, columns) && step.b >= kEqual && step.b <= kGreaterEqual && constants(step.c, step.d, 1);
        ++depth;
        break;
      case WhereProgram::kIn:
        good = in_range(step.a, 1, columns) && constants(step.c, step.b, step.d);
        ++depth;
        break;
      case WhereProgram::kIsNull:
        good = in_range(step.a, 1, columns);
        ++depth;
        break;
      case WhereProgram::kAnd:
      case WhereProgram::kOr:
        good = step.a >= 1 && step.a <= depth;
        depth -= step.a - 1;
        break;
      case WhereProgram::kNot:
        good = depth >= 1;
        break;
      default:
        break;
    }
    if (!good) return Problem("where: step with operation " + std::to_string(step.op) + " makes no sense");
  }
  if (!program.empty() && depth != 1) return Problem("where: expected one result, found " + std::to_string(depth));
  return Problem();
}

std::vector<uint8_t> Evaluate(const WhereProgram& program, const RawRows& rows) {
  std::vector<Truth> stack;
  for (const WhereProgram::Step& step : program.code) {
    switch (step.op) {
      case WhereProgram::kCompare: {
        const RawColumn& column = rows.columns[step.a];
        stack.push_back(step.c == kInteger ? Compare(column, rows.rows, step.b, program.ints[step.d])
                                           : Compare(column, rows.rows, step.b, program.floats[step.d]));
        break;
      }
      case WhereProgram::kIn: {
        const RawColumn& column = rows.columns[step.a];
        stack.push_back(step.c == kInteger ? In(column, rows.rows, program.ints.data() + step.b, step.d)
                                           : In(column, rows.rows, program.floats.data() + step.b, step.d));
        break;
      }
      case WhereProgram::kIsNull:
        stack.push_back(IsNull(rows.columns[step.a], rows.rows));
        break;
      case WhereProgram::kAnd:
      case WhereProgram::kOr:
        for (int64_t k = 1; k < step.a; ++k) {
          const Truth right = std::move(stack.back());
          stack.pop_back();
          Join(step.op == WhereProgram::kAnd ? kFalse : kTrue, right, &stack.back());
        }
        break;
      default:
        for (uint8_t& truth : stack.back()) {
          if (truth != kUnknown) truth ^= 1;
        }
    }
  }
  Truth result = std::move(stack.back());
  for (uint8_t& truth : result) truth = truth == kTrue ? 1 : 0;
  return result;
}

}  // namespace ps_cluster::orc
