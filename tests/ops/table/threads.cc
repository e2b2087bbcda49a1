// Many threads on one table: no update is lost, and a snapshot is the state between two calls.
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/ops/table/check.h"
#include "ops/cc/table/table.h"

namespace ps_cluster {
namespace {

constexpr int kRows = 300;   // everybody adds to
constexpr int kThreads = 4;

TableSpec Spec() {
  TableSpec spec;
  spec.tiers = {{4, 0}};
  spec.optimizer = RowOptimizer::Make("sgd", {0.0f});
  spec.num_sub_tables = 16;
  spec.track_removed = true;
  return spec;
}

std::vector<int64_t> SharedKeys() {
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < kRows; ++i) keys.push_back(i * 1000003);
  return keys;
}

using Values = std::map<int64_t, float>;

void Take(const RowBlock& block, Values* values) {
  for (int64_t i = 0; i < block.size(); ++i) {
    const float* const row = reinterpret_cast<const float*>(block.rows.data()) + i * 4;
    for (int j = 1; j < 4; ++j) CHECK(row[j] == row[0], << "half a row");
    (*values)[block.keys[i]] = row[0];
  }
}

void CheckSame(const Values& values) {
  for (const int64_t key : SharedKeys()) {
    CHECK(values.count(key) == 1);
    CHECK(values.at(key) == values.at(0), << "a snapshot saw half a call");
  }
}

// Threads add 1 to all shared rows in each call while others save, sweep, grow, insert, remove and look.
void AddAndSave(int calls) {
  TableSpec spec = Spec();
  spec.eviction.max_age_steps = 3;  // the shared rows are always younger
  Table table(spec);
  const std::vector<int64_t> keys = SharedKeys();
  {
    const std::vector<float> zeros(kRows * 4, 0.0f);
    const std::vector<uint32_t> ones(kRows, 1);
    table.Push(keys.data(), ones.data(), zeros.data(), kRows, Now{1, 0}, 1.0f);
  }
  std::atomic<int> adding{kThreads};
  std::atomic<uint32_t> step{1};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      const std::vector<uint32_t> ones(kRows, 1);
      const std::vector<float> minus(kRows * 4, -1.0f), one(kRows * 4, 1.0f);
      const std::unique_ptr<bool[]> there(new bool[kRows]);
      std::fill(there.get(), there.get() + kRows, true);
      std::vector<int64_t> order = keys;
      for (int call = 0; call < calls; ++call) {
        std::shuffle(order.begin(), order.end(), random);
        if (t == 0) {
          table.Accumulate(order.data(), kRows, one.data(), there.get());
        } else {
          table.Push(order.data(), ones.data(), minus.data(), kRows, Now{step.load(), 0}, 1.0f);
        }
        if (t == 1) ++step;
      }
      --adding;
    });
  }
  // Rows that come and go: growth, frees, sweeps.
  threads.emplace_back([&] {
    std::mt19937_64 random(99);
    std::vector<int64_t> others(500);
    const std::vector<uint32_t> ones(others.size(), 1);
    const std::vector<float> values(others.size() * 4, 7.0f);
    std::vector<float> out(others.size() * 4);
    while (adding > 0) {
      for (int64_t& key : others) key = -1 - static_cast<int64_t>(random() % 100000);
      table.Insert(others.data(), others.size(), values.data());
      table.Push(others.data(), ones.data(), values.data(), others.size(), Now{step.load(), 0}, 0.0f);
      table.Remove(others.data(), 250);
      table.Sweep(Now{step.load(), 0}, 1000);
      table.Pull(others.data(), others.size(), Now{step.load(), 0}, true, out.data());
      for (size_t i = 0; i < others.size(); ++i) CHECK(out[i * 4] == 7.0f || out[i * 4] == 0.0f);
      table.Stats();
    }
  });
  threads.emplace_back([&] {
    const float zero[4] = {};
    std::vector<float> out(kRows * 4);
    std::vector<float> before(kRows, 0.0f);
    while (adding > 0) {
      table.Find(keys.data(), kRows, zero, true, out.data(), nullptr);
      for (int i = 0; i < kRows; ++i) {
        for (int j = 1; j < 4; ++j) CHECK(out[i * 4 + j] == out[i * 4], << "half a row");
        CHECK(out[i * 4] >= before[i], << "a row went back");
        before[i] = out[i * 4];
      }
    }
  });
  Values saved;
  int deltas = 0;
  bool last = false;
  while (!last) {
    last = adding == 0;
    const std::unique_ptr<Snapshot> snapshot = table.BeginSnapshot(deltas % 5 != 4);
    if (!snapshot->is_delta()) saved.clear();
    ++deltas;
    Values read;
    RowBlock block;
    while (snapshot->NextRows(97, &block)) Take(block, &read);
    std::vector<int64_t> gone;
    while (snapshot->NextRemoved(50, &gone)) {
      for (const int64_t key : gone) saved.erase(key);
    }
    for (const auto& [key, value] : read) saved[key] = value;
    CheckSame(saved);
    snapshot->Commit();
  }
  for (std::thread& thread : threads) thread.join();

  const std::unique_ptr<Snapshot> snapshot = table.BeginSnapshot(true);
  CHECK(snapshot->is_delta());
  RowBlock block;
  std::vector<int64_t> gone;
  while (snapshot->NextRemoved(50, &gone)) {
    for (const int64_t key : gone) saved.erase(key);
  }
  while (snapshot->NextRows(1000, &block)) Take(block, &saved);
  Values all;
  for (uint64_t cursor = 0; table.Export(&cursor, 1000, &block);) Take(block, &all);
  CHECK(saved == all);
  CheckSame(all);
  CHECK(all.at(0) == static_cast<float>(kThreads * calls), << all.at(0));
}

// What a push gives does not depend on its threads, whatever rule is on.
void SameOnAnyThreads(AdmissionKind kind, int64_t max_bytes) {
  TableSpec spec = Spec();
  spec.tiers = {{4, 0}, {8, 10}};
  spec.admission.kind = kind;
  spec.admission.threshold = 2;
  spec.admission.probability = 0.3;
  spec.admission.bloom_capacity = 3000;  // so small that ids meet
  spec.admission.bloom_error = 0.2;
  spec.eviction.max_bytes = max_bytes;
  Table one(spec), many(spec);
  const Table::Parallel parallel = [](int64_t total, const std::function<void(int64_t, int64_t)>& part) {
    std::vector<std::thread> threads;
    for (int t = kThreads - 1; t >= 0; --t) {
      threads.emplace_back([&, t] { part(total * t / kThreads, total * (t + 1) / kThreads); });
    }
    for (std::thread& thread : threads) thread.join();
  };
  std::mt19937_64 random(3);
  for (uint32_t step = 1; step <= 40; ++step) {
    const int n = 2000;
    std::vector<int64_t> keys(n);
    std::vector<uint32_t> counts(n);
    std::vector<float> gradients(n * 8);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % (random() % 100000 + 1));
    for (uint32_t& count : counts) count = 1 + random() % 2;
    for (float& gradient : gradients) gradient = static_cast<float>(random() % 1000) / 1000.0f;
    one.Push(keys.data(), counts.data(), gradients.data(), n, Now{step, 0}, 0.1f);
    many.Push(keys.data(), counts.data(), gradients.data(), n, Now{step, 0}, 0.1f, parallel);
    const TableStats stats = one.Stats();
    CHECK(max_bytes == 0 || stats.bytes <= max_bytes, << stats.bytes);
  }
  uint64_t a = 0, b = 0;
  RowBlock rows_a, rows_b;
  while (one.Export(&a, 500, &rows_a)) {
    CHECK(many.Export(&b, 500, &rows_b));
    CHECK(rows_a.row_class == rows_b.row_class && rows_a.keys == rows_b.keys && rows_a.rows == rows_b.rows);
    for (int64_t i = 0; i < rows_a.size(); ++i) CHECK(rows_a.meta[i].frequency == rows_b.meta[i].frequency);
  }
  CHECK(!many.Export(&b, 500, &rows_b));
  const TableStats stats = one.Stats();
  CHECK(stats.rows > 100);
  CHECK((max_bytes > 0) == (stats.evicted_bytes > 0));
}

}  // namespace
}  // namespace ps_cluster

int main(int argc, char** argv) {
  using ps_cluster::AdmissionKind;
  ps_cluster::AddAndSave(argc > 1 ? std::stoi(argv[1]) : 100);
  for (const AdmissionKind kind :
       {AdmissionKind::kNone, AdmissionKind::kExact, AdmissionKind::kBloom, AdmissionKind::kProbability}) {
    ps_cluster::SameOnAnyThreads(kind, 0);
    ps_cluster::SameOnAnyThreads(kind, 600000);
  }
}
