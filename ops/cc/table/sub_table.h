// One part of a table: rows, their index and their counts behind one latch.
#ifndef PS_CLUSTER_OPS_TABLE_SUB_TABLE_H_
#define PS_CLUSTER_OPS_TABLE_SUB_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/cc/table/arena.h"
#include "ops/cc/table/bloom.h"
#include "ops/cc/table/bucket_index.h"
#include "ops/cc/table/evicted_log.h"
#include "ops/cc/table/hot_keys.h"
#include "ops/cc/table/latch.h"
#include "ops/cc/table/prefetch.h"
#include "ops/cc/table/row_slabs.h"
#include "ops/cc/table/table.h"
#include "ops/cc/table/table_rules.h"

namespace ps_cluster {

// What all sub-tables of a table share. The snapshot's fields change only while no call that changes rows runs.
struct Shared {
  explicit Shared(const TableSpec& spec) : rules(spec), arena(rules.unit_bytes()) {
    for (int c = 0; c < rules.layout().num_classes(); ++c) {
      shapes[c] = RowSlabs::ShapeOf(rules.unit_bytes(), rules.layout().of(c).stride);
    }
  }

  const TableRules rules;
  Arena arena;
  SlabShape shapes[kMostClasses];  // by row class
  EvictedLog evicted;
  uint32_t epoch = 0;  // of the last snapshot; a sub-table comes to it when it is touched next
  bool epoch_is_delta = false;
  std::atomic<bool> lost_removed{false};  // a delta would not name all removed keys
};

struct SubTableCounts {
  int64_t inserted = 0, admitted = 0, refused = 0, promoted = 0;
  int64_t evicted_age = 0, evicted_frequency = 0, evicted_bytes = 0;
  int64_t pause_growth_us = 0, pause_evict_us = 0, pause_snapshot_us = 0;
};

// What the calls of one thread reuse.
struct Scratch {
  std::vector<float> values;
  std::vector<int64_t> admitted;  // by the running push, of the sub-table in hand
};

// Where a look found a key: good until a row of the sub-table is made, moved or dropped, which changes its version.
struct RowPlace {
  uint32_t ref;  // kNone: absent
  uint32_t version;
};

struct PushStep {
  Now now;
  StepConstants constants;
};

// All functions expect the latch to be held. A row reference is the class in the upper 3 bits over the row's number;
// it and pointers to rows are good until a row is made, moved or dropped.
class alignas(64) SubTable {
 public:
  static constexpr uint32_t kNone = BucketIndex::kNone;
  static int ClassOf(uint32_t ref) { return static_cast<int>(ref >> RowSlabs::kNumberBits); }
  static uint32_t NumberOf(uint32_t ref) { return ref & ((uint32_t{1} << RowSlabs::kNumberBits) - 1); }
  static uint32_t RefOf(int row_class, uint32_t number) {
    return static_cast<uint32_t>(row_class) << RowSlabs::kNumberBits | number;
  }

  void Init(Shared* shared);

  Latch latch;

  // --- Rows ------------------------------------------------------------------------------------------------------
  const Bucket* Home(uint64_t hash) const { return index_.HomeOf(hash); }
  const Bucket* Home(uint64_t hash, int chunk_shift) const { return index_.HomeOf(hash, chunk_shift); }
  template <class Guess>
  bool GuessBeside(uint64_t hash, const Guess& guess) const {
    return index_.GuessBeside(hash, guess);
  }
  // With the reference's class and its shape. Without the latch only for a reference that was there when this began.
  const char* RowOf(const SlabShape& shape, int row_class, uint32_t ref) const {
    return shape.At(bases_[row_class].load(std::memory_order_acquire), NumberOf(ref));
  }

  // guess(row, bits) for the rows that may be the key's, with what a change touches beside them.
  template <class Guess>
  void ForEachRowGuess(const SlabShape* shapes, uint64_t hash, const Guess& guess) const {
    index_.ForEachGuess(hash, [&](uint32_t ref) {
      const SlabShape& shape = shapes[ClassOf(ref)];
      char* const* const bases = bases_[ClassOf(ref)].load(std::memory_order_relaxed);
      guess(shape.At(bases, NumberOf(ref)), shape.BitsAt(bases, NumberOf(ref)));
    });
  }
  char* RowOf(uint32_t ref) const { return slabs_[ClassOf(ref)].At(NumberOf(ref)); }
  uint32_t Find(int64_t key, uint64_t hash) const {
    return index_.Find(hash, [&](uint32_t ref) { return HeaderOf(RowOf(ref))->key == key; });
  }

  // Comes to the state that a snapshot which began since demands; before any change.
  void Sync() {
    if (epoch_ != shared_->epoch) BeginSnapshot();
  }

  // Before a push, of several keys in one go: what the push needs of a row's memory is on its way then.
  RowPlace Look(int64_t key, uint64_t hash) const {
    const uint32_t ref = Find(key, hash);
    if (ref != kNone && !Marked(RowOf(ref))) Prefetch(slabs_[ClassOf(ref)].BitsOf(NumberOf(ref)));
    return {ref, version_};
  }
  void Push(const PushStep& step, int64_t key, uint64_t hash, const RowPlace& place, uint32_t count,
            const float* gradient, Scratch* scratch);

  // The plain hash table, on rows of the widest class. Values are of the table's type.
  void Insert(int64_t key, uint64_t hash, const char* values, Scratch* scratch);
  void Accumulate(int64_t key, uint64_t hash, const char* values_or_delta, bool exists, Scratch* scratch);
  void Remove(int64_t key, uint64_t hash);
  void Clear();

  // A row as it was saved, in the place of any other of the key.
  void InsertRow(int64_t key, uint64_t hash, int row_class, const RowMeta& meta, const char* values, Scratch* scratch);

  // Looks at up to `rows` rows from `*cursor` on for expired ones and returns how many it dropped; sets `*cursor` to
  // kNone at the end.
  int64_t Sweep(Now now, int64_t rows, uint32_t* cursor);
  // Adds up to `rows` rows of the block's class from number `*cursor` on; sets `*cursor` to kNone at the end.
  void Export(int64_t rows, uint32_t* cursor, RowBlock* block) const;

  // --- Snapshot --------------------------------------------------------------------------------------------------
  // Up to `rows` of the rows it has yet to take, like `Export`.
  void TakePending(int64_t rows, uint32_t* cursor, RowBlock* block);
  // Rows that changed before they were taken, as they were.
  std::vector<RowBlock> TakeAside(int row_class);
  std::vector<int64_t> TakeRemoved() { return std::move(removed_before_); }
  bool TakeBloom(int segment, std::vector<uint8_t>* counters);
  void EndSnapshot();
  void MarkSaved();

  void MergeBloom(int segment, const uint8_t* counters);

  // --- Figures ---------------------------------------------------------------------------------------------------
  int64_t rows_of(int row_class) const { return slabs_[row_class].live(); }
  int64_t bytes() const;
  SubTableCounts& counts() { return counts_; }
  const HotKeys& hot_keys() const { return hot_keys_; }

 private:
  struct Segment {
    BloomCounters counters;
    bool dirty = false;
    bool pending = false;
    std::unique_ptr<uint8_t[]> aside;
  };

  const TableRules& rules() const { return shared_->rules; }
  const RowLayout& layout() const { return shared_->rules.layout(); }
  Segment& SegmentOf(int segment) { return segments_[segment >> rules().sub_bits()]; }

  // Whether `BeforeChange` was called for a row since its bits last changed as a whole. Not of all such rows: the bits
  // lie in a line of their own, and this spares most pushes the way there.
  bool Marked(const char* row) const { return HeaderOf(row)->last_step > unmarked_up_to_; }
  void Unmark();

  // Before a row or its header is written.
  void BeforeChange(uint32_t ref) {
    const RowSlabs& slabs = slabs_[ClassOf(ref)];
    RowBits* const bits = slabs.BitsOf(NumberOf(ref));
    const uint64_t bit = slabs.Bit(NumberOf(ref));
    if (bits->pending & bit) SetAside(ref);
    bits->dirty |= bit;
  }
  void SetAside(uint32_t ref);
  void BeginSnapshot();
  bool BeforeBloomChange(int segment);

  // A new row, of which only the header is set; kNone when the budget leaves no room.
  uint32_t Create(int64_t key, uint64_t hash, int row_class);
  // The row in another class with what it learned, or kNone when there is no room, and then it is as it was.
  uint32_t Move(uint64_t hash, uint32_t ref, int row_class, Scratch* scratch);
  void FillFresh(int64_t key, int row_class, char* row, Scratch* scratch) const;
  uint32_t Widest(int64_t key, uint64_t hash, Scratch* scratch);
  void Drop(uint64_t hash, uint32_t ref);
  void ReleaseIfEmpty(uint32_t ref);
  void Evict(uint32_t ref, int64_t* count);
  void Enter(const PushStep& step, int64_t key, uint64_t hash, uint32_t count, const float* gradient, Scratch* scratch);
  uint32_t CountInBloom(int64_t key, uint32_t count);
  void Optimize(const PushStep& step, int row_class, char* row, uint32_t last_step, const float* gradient,
                Scratch* scratch) const;

  bool Fits(int64_t more_bytes) const {
    return rules().sub_table_budget() == 0 || bytes() + more_bytes <= rules().sub_table_budget();
  }
  uint32_t TakeRow(int row_class, uint32_t keep);
  bool MakeIndexRoom();
  bool MakeRowRoom(int row_class, uint32_t keep);
  bool MakeBytes(int64_t bytes, uint32_t keep);
  uint32_t LeastUseful(int row_class, uint32_t keep);
  double MeanFrequency(int row_class, uint32_t slab) const;
  void EvictSlab(int row_class, uint32_t slab);
  uint64_t Random() { return Mix64(++random_); }
  void GrowIndex();

  // What every look-up needs shares a cache line with the latch.
  uint32_t epoch_ = 0;
  BucketIndex index_;
  std::atomic<char**> bases_[kMostClasses] = {};  // of the slabs, by class
  std::unique_ptr<RowSlabs[]> slabs_;             // by class
  Shared* shared_ = nullptr;
  Now latest_;                   // of all pushes
  uint32_t restored_step_ = 0;   // newest of all rows that came as they were saved
  uint32_t version_ = 0;         // of the places of all rows
  int64_t unmarked_up_to_ = -1;  // step
  uint64_t random_ = 0;
  HotKeys hot_keys_;
  SubTableCounts counts_;
  std::vector<int64_t> removed_;         // since the last snapshot began
  std::vector<int64_t> removed_before_;  // for the running one
  // By class. In small blocks, so that none is ever copied to a bigger place.
  std::vector<std::vector<RowBlock>> aside_;
  std::vector<Segment> segments_;
  int64_t segment_bytes_ = 0;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_SUB_TABLE_H_
