// Rules of admission and eviction that a model of single keys cannot tell: shares, budgets, what is shown of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/cc/table/bloom.h"
#include "ops/cc/table/half.h"
#include "ops/cc/table/table.h"
#include "tests/ops/table/check.h"

namespace ps_cluster {
namespace {

TableSpec Spec(int dim) {
  TableSpec spec;
  spec.tiers = {{dim, 0}};
  spec.optimizer = RowOptimizer::Make("sgd", {0.0f});
  spec.initializer = Initializer{InitialKind::kUniform, 0.5f};
  return spec;
}

void PushOnce(Table* table, const std::vector<int64_t>& keys, Now now) {
  const std::vector<uint32_t> ones(keys.size(), 1);
  const std::vector<float> gradients(keys.size() * table->width(), 1.0f);
  table->Push(keys.data(), ones.data(), gradients.data(), keys.size(), now, 0.5f);
}

bool HasRow(const Table& table, int64_t key) {
  int row_class = 0;
  RowMeta meta;
  return table.Look(key, &row_class, &meta) && row_class > 0;
}

// However many ids come, the bytes stay within the budget; ids that come often outlive those that come once.
void TheBudgetHoldsAndHotIdsStay(AdmissionKind kind, ValueType type, int64_t max_bytes) {
  TableSpec spec = Spec(6);
  spec.value_type = type;
  spec.admission.kind = kind;
  spec.admission.threshold = 2;
  spec.admission.bloom_capacity = 20000;
  spec.admission.bloom_error = 0.01;
  spec.eviction.max_bytes = max_bytes;
  Table table(spec);
  std::mt19937_64 random(1);
  int64_t next = 1000000;
  std::set<int64_t> once;
  for (uint32_t step = 1; step <= 300; ++step) {
    std::vector<int64_t> keys;
    for (int64_t hot = 0; hot < 100; ++hot) keys.push_back(hot);
    for (int i = 0; i < 400; ++i) keys.push_back(next++);
    // Half of the new ids come again at once, so that they are admitted and fill the table with rows.
    for (int i = 0; i < 200; ++i) keys.push_back(next - 1 - i);
    std::shuffle(keys.begin(), keys.end(), random);
    PushOnce(&table, keys, Now{step, 0});
    const TableStats stats = table.Stats();
    CHECK(stats.bytes <= max_bytes, << stats.bytes << " in step " << step);
    CHECK(stats.rows == table.size());
    CHECK(stats.rows + stats.counted_keys > 0);
  }
  const TableStats stats = table.Stats();
  CHECK(stats.evicted_bytes > 1000);
  CHECK(stats.bytes > max_bytes / 2, << "the budget is used: " << stats.bytes);
  int hot_rows = 0;
  for (int64_t hot = 0; hot < 100; ++hot) hot_rows += HasRow(table, hot);
  CHECK(hot_rows >= 99, << hot_rows);
  CHECK(stats.inserted - stats.rows <= stats.evicted_bytes);
  CHECK(stats.hot_keys.size() == 32);
  for (const auto& [key, occurrences] : stats.hot_keys) CHECK(key < 100 && occurrences >= 290, << key);
}

// Gradients of ones and a rate of a half: what a row shows tells how many updates it saw since it was made.
void AnEvictedIdStartsAnew(AdmissionKind kind) {
  TableSpec spec = Spec(2);
  spec.admission.kind = kind;
  spec.admission.threshold = 3;
  spec.admission.cold_value = -7.0f;
  spec.admission.bloom_capacity = 100000;
  spec.admission.bloom_error = 1e-4;
  spec.eviction.max_age_steps = 10;
  for (const bool swept : {false, true}) {
    Table table(spec);
    float initial[2], out[2];
    FillInitialValue(spec.initializer, spec.seed, spec.salt, 5, 2, initial);
    const auto expect = [&](uint32_t step, float value) {
      table.Pull(std::vector<int64_t>{5}.data(), 1, Now{step, 0}, true, out);
      CHECK(out[0] == value, << out[0] << " " << value << " at step " << step);
    };
    for (const uint32_t from : {0u, 100u}) {
      expect(from + 1, -7.0f);
      PushOnce(&table, {5}, Now{from + 1, 0});
      PushOnce(&table, {5}, Now{from + 2, 0});
      expect(from + 2, -7.0f);
      PushOnce(&table, {5}, Now{from + 3, 0});
      expect(from + 3, initial[0]);
      PushOnce(&table, {5}, Now{from + 4, 0});
      expect(from + 4, initial[0] - 0.5f);
      expect(from + 14, initial[0] - 0.5f);
      expect(from + 15, -7.0f);
      if (!swept) continue;
      CHECK(table.Sweep(Now{from + 14, 0}, 1 << 20) == 0);
      CHECK(table.Sweep(Now{from + 15, 0}, 1 << 20) == 1);
      CHECK(table.size() == 0);
      CHECK(table.TakeEvicted() == std::vector<int64_t>{5});
    }
    CHECK(table.Stats().evicted_age == (swept ? 2 : 1));
  }
}

void TheBloomFilterErrsAsSeldomAsStated(int64_t capacity, double error) {
  TableSpec spec = Spec(1);
  spec.admission.kind = AdmissionKind::kBloom;
  spec.admission.threshold = 2;
  spec.admission.bloom_capacity = capacity;
  spec.admission.bloom_error = error;
  Table table(spec);
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < capacity; ++i) keys.push_back(i * 7919);
  PushOnce(&table, keys, Now{1, 0});  // each id once: none should have a row
  const double wrong = static_cast<double>(table.size()) / capacity;
  CHECK(wrong <= error, << wrong << " instead of " << error);
  PushOnce(&table, keys, Now{2, 0});
  CHECK(table.size() == capacity, << "a count was lost");
  CHECK(table.bloom_segment_bytes() * 4096 == BloomBytes(capacity, error, 2));
  // About 1.44 log2(1 / error) counters an id, and more where segments hold so few ids that their numbers differ.
  const double bytes = static_cast<double>(BloomBytes(capacity, error, 2)) / capacity;
  CHECK(capacity < 100000 || bytes < 1.6 * 1.44 * std::log2(1 / error), << bytes);
}

void BloomCountsMoveToOtherTables() {
  TableSpec spec = Spec(1);
  spec.admission.kind = AdmissionKind::kBloom;
  spec.admission.threshold = 300;  // two bytes a counter
  spec.admission.bloom_capacity = 5000;
  spec.admission.bloom_error = 0.01;
  Table table(spec);
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < 1000; ++i) keys.push_back(i);
  for (uint32_t step = 1; step < 300; ++step) PushOnce(&table, keys, Now{step, 0});
  spec.num_sub_tables = 2;
  Table other(spec);
  const std::unique_ptr<Snapshot> snapshot = table.BeginSnapshot(false);
  BloomSegment segment;
  bool first = true;
  while (snapshot->NextBloom(&segment)) {
    // A push meanwhile is not in the snapshot.
    if (first) PushOnce(&table, keys, Now{300, 0});
    first = false;
    other.MergeBloom(segment);
    other.MergeBloom(segment);
  }
  CHECK(table.size() == 1000);
  CHECK(other.size() == 0);
  PushOnce(&other, keys, Now{300, 0});
  CHECK(other.size() == 1000);
  other.Clear();
  PushOnce(&other, keys, Now{301, 0});
  CHECK(other.size() == 0);
}

void ProbabilityAdmitsItsShare() {
  TableSpec spec = Spec(1);
  spec.admission.kind = AdmissionKind::kProbability;
  spec.admission.probability = 0.1;
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < 20000; ++i) keys.push_back(i);
  const auto admitted = [&](int64_t seed, uint32_t count) {
    spec.seed = seed;
    Table table(spec);
    const std::vector<uint32_t> counts(keys.size(), count);
    const std::vector<float> gradients(keys.size(), 0.0f);
    table.Push(keys.data(), counts.data(), gradients.data(), keys.size(), Now{1, 0}, 0.5f);
    std::set<int64_t> with_row;
    for (const int64_t key : keys) {
      if (HasRow(table, key)) with_row.insert(key);
    }
    const double share = static_cast<double>(with_row.size()) / keys.size();
    const double expected = 1 - std::pow(0.9, count);
    CHECK(std::abs(share - expected) < 5 * std::sqrt(expected * (1 - expected) / keys.size()), << share);
    CHECK(table.Stats().refused == static_cast<int64_t>(keys.size() - with_row.size()));
    return with_row;
  };
  CHECK(admitted(1, 1) == admitted(1, 1));
  CHECK(admitted(1, 1) != admitted(2, 1));
  admitted(1, 4);
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// Against arithmetic in float64, and the vector's way against the way of its last elements.
void HalvesRoundToTheNearest() {
  std::vector<float> values;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const uint16_t from = static_cast<uint16_t>(half);
    float value, eight[8];
    uint16_t back;
    const uint16_t same[8] = {from, from, from, from, from, from, from, from};
    HalfToFloat(&from, 1, &value);
    HalfToFloat(same, 8, eight);
    CHECK(Bits(eight[7]) == Bits(value), << half);
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) {
      CHECK(fraction == 0 ? value == sign * std::numeric_limits<float>::infinity() : std::isnan(value));
    } else {
      CHECK(value == sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25)));
      FloatToHalf(&value, 1, &back);
      CHECK(back == from, << half);
      values.push_back(value);
    }
  }
  std::sort(values.begin(), values.end());
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    float value;
    const uint32_t bits = static_cast<uint32_t>(random());
    std::memcpy(&value, &bits, 4);
    if (i % 3 == 0) value = std::ldexp(static_cast<float>(random() % 4096), static_cast<int>(random() % 36) - 30);
    uint16_t half, halves[8];
    float back;
    const float same[8] = {value, value, value, value, value, value, value, value};
    FloatToHalf(&value, 1, &half);
    FloatToHalf(same, 8, halves);
    CHECK(half == halves[7], << value);
    HalfToFloat(&half, 1, &back);
    if (std::isnan(value)) {
      CHECK(std::isnan(back));
    } else if (std::abs(value) >= 65520) {
      CHECK(std::isinf(back) && std::signbit(back) == std::signbit(value));
    } else {
      const double error = std::abs(double{value} - back);
      const auto above = std::lower_bound(values.begin(), values.end(), value);
      if (above != values.end()) CHECK(error <= std::abs(double{value} - *above));
      if (above != values.begin()) CHECK(error <= std::abs(double{value} - *(above - 1)));
      const bool tie = above != values.end() && above != values.begin() && *above != value &&
                       double{*above} - value == double{value} - *(above - 1);
      CHECK(!tie || (half & 1) == 0, << value);
    }
    uint16_t brain;
    FloatToBfloat16(&value, 1, &brain);
    Bfloat16ToFloat(&brain, 1, &back);
    if (std::isnan(value)) {
      CHECK(std::isnan(back));
    } else if (std::isfinite(back)) {
      const double step = std::ldexp(1.0, std::max(-133, std::ilogb(value == 0 ? 1.0f : value) - 7));
      CHECK(std::abs(double{value} - back) <= step / 2, << value);
      CHECK((Bits(value) & 0xffff) != 0x8000 || (brain & 1) == 0);
    }
  }
}

// 16-bit values: what is shown is what is kept, from the first pull on.
void SixteenBitRowsKeepWhatTheyShow(ValueType type) {
  TableSpec spec = Spec(3);
  spec.value_type = type;
  Table table(spec);
  const std::vector<int64_t> keys{1, 2, 3};
  float before[9], after[9];
  table.Pull(keys.data(), 3, Now{1, 0}, true, before);
  const std::vector<uint32_t> ones(3, 1);
  const std::vector<float> zeros(9, 0.0f);
  table.Push(keys.data(), ones.data(), zeros.data(), 3, Now{1, 0}, 1.0f);
  table.Pull(keys.data(), 3, Now{2, 0}, true, after);
  CHECK(std::memcmp(before, after, sizeof before) == 0);
  const float none[9] = {};
  CHECK(std::memcmp(before, none, sizeof before) != 0);
}

void Refuses(const TableSpec& spec, const std::string& words) {
  try {
    Table table(spec);
  } catch (const std::invalid_argument& error) {
    CHECK(error.what() == words, << error.what());
    return;
  }
  CHECK(false, << words);
}

void WrongSpecsAreNamed() {
  TableSpec spec = Spec(4);
  spec.num_sub_tables = 3;
  Refuses(spec, "num_sub_tables: expected a power of two from 1 to 4096, found 3");
  spec = Spec(4);
  spec.tiers = {{4, 0}, {4, 5}};
  Refuses(spec, "tiers[1].dim: expected more than the tier before, found 4");
  spec = Spec(4);
  spec.eviction.max_bytes = 1000;
  Refuses(spec, "eviction.max_bytes: expected at least 18432, found 1000");
  spec = Spec(4);
  spec.admission.kind = AdmissionKind::kBloom;
  spec.admission.threshold = 2;
  spec.admission.bloom_capacity = 10;
  spec.admission.bloom_error = 1.0;
  Refuses(spec, "admission.bloom_error: expected between 0 and 1, found 1");
  Table table(Spec(4));
  RowBlock block;
  block.row_class = 1;
  block.keys = {1};
  block.meta.resize(1);
  block.rows.resize(15);
  try {
    table.InsertRows(block);
    CHECK(false);
  } catch (const std::invalid_argument& error) {
    CHECK(error.what() == std::string("bytes of rows: expected 16, found 15"), << error.what());
  }
}

}  // namespace
}  // namespace ps_cluster

int main() {
  using namespace ps_cluster;
  WrongSpecsAreNamed();
  HalvesRoundToTheNearest();
  SixteenBitRowsKeepWhatTheyShow(ValueType::kFloat16);
  SixteenBitRowsKeepWhatTheyShow(ValueType::kBfloat16);
  AnEvictedIdStartsAnew(AdmissionKind::kExact);
  AnEvictedIdStartsAnew(AdmissionKind::kBloom);
  ProbabilityAdmitsItsShare();
  BloomCountsMoveToOtherTables();
  for (const double error : {0.1, 0.001}) {
    TheBloomFilterErrsAsSeldomAsStated(3000, error);
    TheBloomFilterErrsAsSeldomAsStated(200000, error);
  }
  for (const int64_t max_bytes : {400000, 1500000}) {
    TheBudgetHoldsAndHotIdsStay(AdmissionKind::kNone, ValueType::kFloat32, max_bytes);
    TheBudgetHoldsAndHotIdsStay(AdmissionKind::kExact, ValueType::kFloat16, max_bytes);
    TheBudgetHoldsAndHotIdsStay(AdmissionKind::kBloom, ValueType::kBfloat16, max_bytes);
  }
}
