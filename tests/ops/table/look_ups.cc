// Look-ups find every key that is there and no other: keys that look alike to the index, calls of any size, rows of
// several classes, and beside changes of the same sub-table.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ops/cc/table/table.h"
#include "ops/cc/table/table_rules.h"
#include "tests/ops/table/check.h"

namespace ps_cluster {
namespace {

constexpr int kWide = 6, kNarrow = 3;

TableSpec Spec(bool tiers, AdmissionKind admission) {
  TableSpec spec;
  spec.tiers = tiers ? std::vector<Tier>{{kNarrow, 0}, {kWide, 10}} : std::vector<Tier>{{kWide, 0}};
  spec.optimizer = RowOptimizer::Make("sgd", {0.0f});
  spec.num_sub_tables = 1;
  spec.admission.kind = admission;
  spec.admission.threshold = 5;
  spec.admission.bloom_capacity = 1000;
  spec.admission.bloom_error = 0.01;
  return spec;
}

float ValueOf(int64_t key, int column) { return static_cast<float>(key % 1009) + static_cast<float>(column) / 8; }

// Keys with one tag and one home, a number of 12 bits: in an index of fewer buckets they are of one or two neighbours.
std::vector<int64_t> Alike(int64_t from, uint64_t home, int count) {
  std::vector<int64_t> keys;
  for (int64_t key = from; static_cast<int>(keys.size()) < count; ++key) {
    const uint64_t hash = Placement::IndexHash(key);
    if ((hash & 0xff) == 77 && (hash >> 28 & 0xfff) == home) keys.push_back(key);
  }
  return keys;
}

struct Keys {
  std::vector<int64_t> there, counted, absent;
};

// Of each group of keys that look alike, every third is there, counted (where keys are counted) or absent.
Keys MakeKeys() {
  Keys keys;
  for (const int count : {2, 3, 5, 9, 15, 60}) {
    // A search that begins in the last bucket goes on in the first.
    const uint64_t home = count == 15 ? 0xfff : static_cast<uint64_t>(60 * count);
    const std::vector<int64_t> alike = Alike(int64_t{count} * 100000007, home, count);
    for (size_t i = 0; i < alike.size(); ++i) {
      (i % 3 == 0 ? keys.there : i % 3 == 1 ? keys.absent : keys.counted).push_back(alike[i]);
    }
  }
  for (int64_t key = -3000; key < 0; ++key) {
    (key % 4 == 0 ? keys.absent : key % 8 == -1 ? keys.counted : keys.there).push_back(key);
  }
  return keys;
}

// Keys at even places are narrow where the table has two widths.
std::map<int64_t, int> Fill(Table* table, const Keys& keys) {
  std::map<int64_t, int> dims;
  for (int row_class = 1; row_class < table->num_classes(); ++row_class) {
    RowBlock block;
    block.row_class = row_class;
    const int dim = table->dim(row_class);
    for (size_t i = 0; i < keys.there.size(); ++i) {
      if (table->num_classes() == 3 && static_cast<int>(i % 2) != row_class - 1) continue;
      const int64_t key = keys.there[i];
      dims[key] = dim;
      block.keys.push_back(key);
      block.meta.push_back(RowMeta{1, 20, 0});
      for (int column = 0; column < dim; ++column) {
        const float value = ValueOf(key, column);
        const char* const bytes = reinterpret_cast<const char*>(&value);
        block.rows.insert(block.rows.end(), bytes, bytes + sizeof(value));
      }
    }
    table->InsertRows(block);
  }
  if (table->spec().admission.kind == AdmissionKind::kExact) {
    const int64_t n = static_cast<int64_t>(keys.counted.size());
    const std::vector<uint32_t> ones(n, 1);
    const std::vector<float> zeros(n * kWide, 0.0f);
    table->Push(keys.counted.data(), ones.data(), zeros.data(), n, Now{1, 0}, 0.1f);
    CHECK(table->Stats().counted_keys == n);
  }
  return dims;
}

// One call of `Find` and one of `Pull`, each checked in full.
void LookUp(Table* table, const std::vector<int64_t>& keys, const std::map<int64_t, int>& dims) {
  const int64_t n = static_cast<int64_t>(keys.size());
  const float missing[kWide] = {-1, -2, -3, -4, -5, -6};
  std::vector<float> found(n * kWide + 1, 0.5f), pulled(n * kWide + 1, 0.5f);
  const std::unique_ptr<bool[]> exists(new bool[n + 1]);
  exists[n] = true;
  table->Find(keys.data(), n, missing, true, found.data(), exists.get());
  table->Pull(keys.data(), n, Now{1, 0}, false, pulled.data());
  CHECK(found.back() == 0.5f && pulled.back() == 0.5f && exists[n], << "written behind the answer");
  const float cold = table->spec().admission.kind == AdmissionKind::kNone ? 0.0f : table->spec().admission.cold_value;
  for (int64_t i = 0; i < n; ++i) {
    const auto row = dims.find(keys[i]);
    CHECK(exists[i] == (row != dims.end()), << "key " << keys[i]);
    for (int column = 0; column < kWide; ++column) {
      const float kept = row != dims.end() && column < row->second ? ValueOf(keys[i], column) : 0.0f;
      CHECK(found[i * kWide + column] == (exists[i] ? kept : missing[column]), << "key " << keys[i]);
      CHECK(pulled[i * kWide + column] == (exists[i] ? kept : cold), << "key " << keys[i]);
    }
  }
}

void EveryKeyIsFound(bool tiers, AdmissionKind admission) {
  Table table(Spec(tiers, admission));
  const Keys keys = MakeKeys();
  LookUp(&table, keys.absent, {});
  const std::map<int64_t, int> dims = Fill(&table, keys);
  std::vector<int64_t> all = keys.there;
  all.insert(all.end(), keys.counted.begin(), keys.counted.end());
  all.insert(all.end(), keys.absent.begin(), keys.absent.end());
  std::mt19937_64 random(1);
  for (int size = 0; size < 80; ++size) {
    std::vector<int64_t> some(size);
    for (int64_t& key : some) key = all[random() % all.size()];
    LookUp(&table, some, dims);
  }
  for (int times = 0; times < 10; ++times) {
    std::shuffle(all.begin(), all.end(), random);
    LookUp(&table, all, dims);
  }
  LookUp(&table, std::vector<int64_t>(1000, keys.there.front()), dims);
}

// A class without a single row is never looked into.
void EveryKeyIsFoundWhereOnlyTheFirstClassHasRows() {
  const std::vector<int64_t> keys = MakeKeys().counted;
  Keys counted;
  counted.counted = keys;
  Table counts(Spec(false, AdmissionKind::kExact));
  LookUp(&counts, keys, Fill(&counts, counted));

  Table rows(Spec(true, AdmissionKind::kNone));
  const std::vector<uint32_t> ones(keys.size(), 1);
  const std::vector<float> zeros(keys.size() * kWide, 0.0f);
  const int64_t n = static_cast<int64_t>(keys.size());
  rows.Push(keys.data(), ones.data(), zeros.data(), n, Now{1, 0}, 0.1f);
  CHECK(rows.Stats().rows_by_tier[0] == n);
  const float missing[kWide] = {};
  std::vector<float> found(n * kWide);
  const std::unique_ptr<bool[]> exists(new bool[n]);
  rows.Find(keys.data(), n, missing, true, found.data(), exists.get());
  CHECK(std::all_of(exists.get(), exists.get() + n, [](bool one) { return one; }));
}

// Rows that stay are found with their values and absent keys are not, while keys that look like them come and go, the
// index and the slabs with them.
void ChangesBesideDoNotHideRows(int calls) {
  Table table(Spec(true, AdmissionKind::kNone));
  const Keys keys = MakeKeys();
  const std::map<int64_t, int> dims = Fill(&table, keys);
  std::vector<int64_t> still = keys.there;
  still.insert(still.end(), keys.absent.begin(), keys.absent.end());
  std::atomic<bool> reading{true};
  std::thread changes([&] {
    std::mt19937_64 random(7);
    std::vector<int64_t> moving = keys.counted;  // which nobody looks up
    for (int64_t key = 0; key < 4000; ++key) moving.push_back(10'000'000'000 + key);
    const std::vector<float> values(moving.size() * kWide, 7.0f);
    while (reading) {
      std::shuffle(moving.begin(), moving.end(), random);
      const int64_t n = static_cast<int64_t>(random() % moving.size());
      table.Insert(moving.data(), n, values.data());
      if (random() % 2 == 0) table.Remove(moving.data(), static_cast<int64_t>(moving.size()));
    }
  });
  std::mt19937_64 random(8);
  for (int call = 0; call < calls; ++call) {
    std::shuffle(still.begin(), still.end(), random);
    LookUp(&table, still, dims);
  }
  reading = false;
  changes.join();
}

// Rows so wide that they are not written in one go, while they are written.
void HalfARowIsNeverSeen(int calls) {
  constexpr int kDim = 500, kRows = 50;
  TableSpec spec = Spec(false, AdmissionKind::kNone);
  spec.tiers = {{kDim, 0}};
  Table table(spec);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < kRows; ++key) keys.push_back(key);
  table.Insert(keys.data(), kRows, std::vector<float>(kRows * kDim, 0.0f).data());
  std::atomic<bool> reading{true};
  std::thread changes([&] {
    for (float value = 1; reading; ++value) {
      table.Insert(keys.data(), kRows, std::vector<float>(kRows * kDim, value).data());
    }
  });
  const std::vector<float> missing(kDim, -1.0f);
  std::vector<float> found(kRows * kDim);
  for (int call = 0; call < calls; ++call) {
    table.Find(keys.data(), kRows, missing.data(), true, found.data(), nullptr);
    for (int i = 0; i < kRows * kDim; ++i) CHECK(found[i] == found[i / kDim * kDim], << "row " << i / kDim);
  }
  reading = false;
  changes.join();
}

}  // namespace
}  // namespace ps_cluster

int main(int argc, char** argv) {
  using ps_cluster::AdmissionKind;
  for (const bool tiers : {false, true}) {
    for (const AdmissionKind kind : {AdmissionKind::kNone, AdmissionKind::kExact, AdmissionKind::kBloom}) {
      ps_cluster::EveryKeyIsFound(tiers, kind);
    }
  }
  ps_cluster::EveryKeyIsFoundWhereOnlyTheFirstClassHasRows();
  const int calls = argc > 1 ? std::stoi(argv[1]) : 300;
  ps_cluster::ChangesBesideDoNotHideRows(calls);
  ps_cluster::HalfARowIsNeverSeen(10 * calls);
}
