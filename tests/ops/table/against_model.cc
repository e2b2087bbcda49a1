// Random calls to a table, each answer and the whole content compared with the model's.
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/ops/table/check.h"
#include "tests/ops/table/model.h"

namespace ps_cluster {
namespace {

using Random = std::mt19937_64;

void OnThreads(int64_t total, const std::function<void(int64_t, int64_t)>& part) {
  constexpr int kThreads = 3;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { part(total * t / kThreads, total * (t + 1) / kThreads); });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Case {
  const char* name;
  TableSpec spec;
  int keys;
  bool plain;  // inserts and accumulations too
};

// Follows saves: what was saved, as a reader of the files would put it together.
class Saves {
 public:
  Saves(const TableSpec& spec, Table* table, Model* model) : spec_(spec), table_(table), model_(model) {}

  void Turn(Random* random) {
    if (snapshot_ == nullptr && (*random)() % 4 == 0) {
      table_->MarkSaved();
      saved_ = model_->rows;
      model_->changed.clear();
      model_->removed.clear();
      has_base_ = true;
    } else if (snapshot_ == nullptr) {
      Begin((*random)() % 3 != 0);
    } else if (!Step(1 + (*random)() % 60)) {
      End((*random)() % 8 != 0);
    }
  }
  int deltas() const { return deltas_; }

 private:
  void Begin(bool delta) {
    snapshot_ = table_->BeginSnapshot(delta);
    CHECK(snapshot_ != nullptr);
    CHECK(table_->BeginSnapshot(false) == nullptr);
    CHECK(snapshot_->is_delta() == (delta && has_base_));
    deltas_ += snapshot_->is_delta();
    then_ = model_->rows;
    changed_ = std::move(model_->changed);
    removed_ = std::move(model_->removed);
    model_->changed.clear();
    model_->removed.clear();
    read_.clear();
    gone_.clear();
  }

  bool Step(int64_t rows) {
    RowBlock block;
    if (snapshot_->NextRows(rows, &block)) {
      CHECK(block.size() > 0 && block.size() <= rows);
      const size_t before = read_.size();
      TakeRows(spec_, block, &read_);
      CHECK(read_.size() == before + block.keys.size());
      return true;
    }
    std::vector<int64_t> keys;
    if (!snapshot_->NextRemoved(rows, &keys)) return false;
    gone_.insert(gone_.end(), keys.begin(), keys.end());
    return true;
  }

  void End(bool commit) {
    if (snapshot_->is_delta()) {
      for (const int64_t key : gone_) saved_.erase(key);
      std::set<int64_t> keys;
      for (const auto& [key, row] : read_) keys.insert(key);
      CHECK(keys == changed_);
      std::sort(gone_.begin(), gone_.end());
      std::sort(removed_.begin(), removed_.end());
      CHECK(gone_ == removed_);
    } else {
      saved_.clear();
      CHECK(gone_.empty());
    }
    for (const auto& [key, row] : read_) saved_[key] = row;
    CHECK(saved_ == then_);
    if (commit) snapshot_->Commit();
    snapshot_.reset();
    has_base_ = commit;
  }

  const TableSpec spec_;
  Table* const table_;
  Model* const model_;
  std::unique_ptr<Snapshot> snapshot_;
  bool has_base_ = false;
  int deltas_ = 0;
  ModelRows then_, read_, saved_;
  std::set<int64_t> changed_;
  std::vector<int64_t> removed_, gone_;
};

// Rows as if they had been saved, some of them at a step that is yet to come.
void Restore(const Case& test, const std::vector<int64_t>& keys, Now now, Random* random, Table* table, Model* model) {
  RowBlock block;
  block.row_class = 1 + static_cast<int>((*random)() % test.spec.tiers.size());
  const int dim = test.spec.tiers[block.row_class - 1].dim;
  for (const int64_t key : std::set<int64_t>(keys.begin(), keys.end())) {
    const float frequency = static_cast<float>(1 + (*random)() % 9);
    RowMeta meta{now.step + static_cast<uint32_t>((*random)() % 4), static_cast<uint32_t>(frequency), 0};
    if (model->decays()) std::memcpy(&meta.frequency, &frequency, sizeof(frequency));
    block.keys.push_back(key);
    block.meta.push_back(meta);
    for (int j = 0; j < 2 * dim; ++j) {
      const float value = static_cast<float>((*random)() % 17) - 8.0f;
      const char* const bytes = reinterpret_cast<const char*>(&value);
      block.rows.insert(block.rows.end(), bytes, bytes + sizeof(value));
    }
    model->changed.insert(key);
  }
  table->InsertRows(block);
  TakeRows(test.spec, block, &model->rows);
}

void Compare(const Case& test, Table* table, const Model& model) {
  const ModelRows rows = AllRows(table);
  CHECK(rows.size() == model.rows.size(), << rows.size() << " " << model.rows.size());
  for (const auto& [key, row] : model.rows) {
    const auto found = rows.find(key);
    CHECK(found != rows.end() && found->second == row, << test.name << " key " << key);
  }
  int64_t with_row = 0;
  for (const auto& [key, row] : rows) with_row += row.row_class > 0;
  CHECK(table->size() == with_row);
  const TableStats stats = table->Stats();
  CHECK(stats.rows == with_row);
  CHECK(stats.counted_keys == static_cast<int64_t>(rows.size()) - with_row);
  CHECK(stats.evicted_age + stats.evicted_frequency >= model.evicted);
}

// Restored into tables of other shapes, row by row the same.
void CompareRestored(const Case& test, Table* table, const Model& model) {
  TableSpec spec = test.spec;
  spec.num_sub_tables = 1;
  Table other(spec);
  RowBlock block;
  for (uint64_t cursor = 0; table->Export(&cursor, 77, &block);) other.InsertRows(block);
  CHECK(AllRows(&other) == model.rows);
  for (uint64_t cursor = 0; table->Export(&cursor, 77, &block);) other.InsertRows(block);
  CHECK(AllRows(&other) == model.rows);
}

void Run(const Case& test, int seed) {
  Random random(seed);
  Table table(test.spec);
  Model model(test.spec);
  Saves saves(test.spec, &table, &model);
  const int width = model.width();
  Now now{1, 400000};
  for (int turn = 0; turn < 700; ++turn) {
    const int n = static_cast<int>(random() % 50);
    std::vector<int64_t> keys(n);
    std::vector<uint32_t> counts(n);
    std::vector<float> values(n * width);
    // A few keys come often, most seldom.
    for (int64_t& key : keys) key = static_cast<int64_t>(Mix64(random() % (random() % test.keys + 1)));
    for (uint32_t& count : counts) count = 1 + random() % 3;
    for (float& value : values) value = static_cast<float>(random() % 17) - 8.0f;
    const uint64_t what = random() % 20;
    if (what < 9) {
      const Table::Parallel parallel = random() % 4 == 0 ? Table::Parallel(OnThreads) : nullptr;
      Now its = now;  // a worker may be behind the others
      if (random() % 4 == 0) its.step -= std::min<uint32_t>(its.step - 1, random() % 3);
      table.Push(keys.data(), counts.data(), values.data(), n, its, 0.25f, parallel);
      model.Push(keys, counts, values, its, 0.25f);
      now.step += random() % 2;
      now.hour += random() % 8 == 0;
    } else if (what < 12) {
      const bool training = random() % 2 == 0;
      std::vector<float> out(n * width, 99.0f);
      table.Pull(keys.data(), n, now, training, out.data());
      for (int i = 0; i < n; ++i) {
        const std::vector<float> expected = model.Pull(keys[i], now, training);
        CHECK(std::equal(expected.begin(), expected.end(), out.begin() + i * width), << test.name << " " << keys[i]);
      }
    } else if (what == 12) {
      if (random() % 2 == 0) {
        table.Sweep(now, 1 << 20);
        std::vector<int64_t> expired;
        for (const auto& [key, row] : model.rows) {
          if (model.Expired(row, now)) expired.push_back(key);
        }
        for (const int64_t key : expired) model.Evict(key);
      } else {
        int64_t dropped = table.Sweep(now, random() % 500);
        std::vector<int64_t> gone;
        int row_class;
        RowMeta meta;
        for (const auto& [key, row] : model.rows) {
          if (!table.Look(key, &row_class, &meta)) gone.push_back(key);
        }
        for (const int64_t key : gone) {
          CHECK(model.Expired(model.rows[key], now));
          model.Evict(key);
          --dropped;
        }
        CHECK(dropped == 0);
      }
    } else if (what == 13) {
      const int few = std::min(n, 5);
      table.Remove(keys.data(), few);
      for (int i = 0; i < few; ++i) model.Remove(keys[i]);
    } else if (what == 14) {
      std::vector<float> defaults(width, -1.0f), out(n * width);
      const std::unique_ptr<bool[]> exists(new bool[n + 1]);
      table.Find(keys.data(), n, defaults.data(), true, out.data(), exists.get());
      for (int i = 0; i < n; ++i) {
        const auto found = model.rows.find(keys[i]);
        const bool has = found != model.rows.end() && found->second.row_class > 0;
        CHECK(exists[i] == has);
        std::vector<float> expected = has ? found->second.w : defaults;
        expected.resize(width, 0.0f);
        CHECK(std::equal(expected.begin(), expected.end(), out.begin() + i * width));
      }
    } else if (what == 15 && test.plain) {
      table.Insert(keys.data(), n, values.data());
      for (int i = 0; i < n; ++i) model.Insert(keys[i], values.data() + i * width);
    } else if (what == 16 && test.plain && random() % 2 == 0) {
      Restore(test, keys, now, &random, &table, &model);
    } else if (what == 16 && test.plain) {
      const std::unique_ptr<bool[]> exists(new bool[n + 1]);
      for (int i = 0; i < n; ++i) exists[i] = random() % 2 == 0;
      table.Accumulate(keys.data(), n, values.data(), exists.get());
      for (int i = 0; i < n; ++i) model.Accumulate(keys[i], values.data() + i * width, exists[i]);
    } else if (what >= 17) {
      saves.Turn(&random);
    }
    if (turn % 100 == 99) Compare(test, &table, model);
  }
  CHECK(saves.deltas() > 0, << test.name);
  CompareRestored(test, &table, model);
  table.Clear();
  CHECK(table.size() == 0 && AllRows(&table).empty());
}

std::vector<Case> Cases() {
  TableSpec spec;
  spec.tiers = {{3, 0}};
  spec.optimizer = RowOptimizer::Make("momentum", {kMomentum, 0.0f, 0.0f});
  spec.initializer = Initializer{InitialKind::kUniform, 0.5f};
  spec.salt = 11;
  spec.seed = 5;
  spec.track_removed = true;
  spec.num_sub_tables = 8;
  std::vector<Case> cases{{"one width", spec, 20000, true}};

  TableSpec tiers = spec;
  tiers.tiers = {{2, 0}, {5, 6}, {9, 20}};
  cases.push_back({"tiers", tiers, 500, true});

  TableSpec exact = tiers;
  exact.admission.kind = AdmissionKind::kExact;
  exact.admission.threshold = 4;
  exact.admission.cold_value = 0.125f;
  exact.eviction.max_age_steps = 40;
  cases.push_back({"exact admission, tiers, age in steps", exact, 500, true});

  TableSpec hours = exact;
  hours.eviction = EvictionSpec();
  hours.eviction.max_age_hours = 6;
  hours.num_sub_tables = 1;
  cases.push_back({"exact admission, tiers, age in hours", hours, 500, false});

  TableSpec bloom = hours;
  bloom.num_sub_tables = 16;
  bloom.admission.kind = AdmissionKind::kBloom;
  bloom.admission.bloom_capacity = 1000000;
  bloom.admission.bloom_error = 1e-5;
  cases.push_back({"Bloom filter, tiers, age in hours", bloom, 300, false});

  TableSpec decay = tiers;
  decay.admission.kind = AdmissionKind::kExact;
  decay.admission.threshold = 3;
  decay.eviction.half_life_steps = 10;
  decay.eviction.min_frequency = 0.75;
  cases.push_back({"exact admission, tiers, decaying frequency", decay, 400, true});

  TableSpec wide = spec;
  wide.tiers = {{700, 0}, {6000, 3}};  // a slab holds few of the one and none of the other
  cases.push_back({"wide rows", wide, 60, true});
  return cases;
}

}  // namespace
}  // namespace ps_cluster

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 2;
  for (const ps_cluster::Case& test : ps_cluster::Cases()) {
    for (int seed = 1; seed <= rounds; ++seed) ps_cluster::Run(test, seed);
    std::cout << test.name << std::endl;
  }
}
