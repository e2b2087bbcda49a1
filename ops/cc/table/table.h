// An embedding table: keys to rows `[embedding | slots]` with frequency and last step, exact under concurrency.
//
// The table is cut by hash into sub-tables. Each has a latch, an index of cache-line buckets (one-byte tags and
// 32-bit row numbers) and slabs of rows; it grows alone, so that no growth stops or doubles the whole. Look-ups take
// the latch only where a change came between. Every public function may be called by any number of threads at a time
// unless it says otherwise.
#ifndef PS_CLUSTER_OPS_TABLE_TABLE_H_
#define PS_CLUSTER_OPS_TABLE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/cc/table/table_spec.h"

namespace ps_cluster {

// When something happens, as eviction measures it. A push may be behind others: a row keeps the newest of its pushes.
struct Now {
  uint32_t step = 0;  // counted from 1; 0: outside of training, which Pull takes as the newest step there was
  uint32_t hour = 0;  // event time in hours since 1970; 0: not known, which Pull takes as the newest hour there was
};

struct RowMeta {
  uint32_t last_step = 0;
  uint32_t frequency = 0;  // occurrences (saturating); with a half life the bits of a float32
  uint32_t last_hour = 0;  // 0 unless the table evicts by hours
};

// Row class 0 holds keys that are only counted (exact admission) and have no row; class k > 0 is tier k - 1.
// Rows of one class, column by column, as they lie in files.
struct RowBlock {
  int row_class = 0;
  std::vector<int64_t> keys;
  std::vector<RowMeta> meta;
  std::vector<char> rows;  // [keys, RowBytes(row_class)]: embedding in the table's type, padded to 4 bytes, then slots

  int64_t size() const { return static_cast<int64_t>(keys.size()); }
  void clear() {
    keys.clear();
    meta.clear();
    rows.clear();
  }
};

// Counters of the Bloom filter over one of 4,096 ranges of the key's hash, so that a table can be cut anew over
// another number of PS.
struct BloomSegment {
  int index = 0;
  std::vector<uint8_t> counters;
};

struct TableStats {
  int64_t rows = 0;           // with an embedding
  int64_t counted_keys = 0;   // only counted
  int64_t bytes = 0;          // rows, index, counts, Bloom filter: what `max_bytes` limits
  int64_t payload_bytes = 0;  // keys, embeddings, slots, frequencies and last steps of `rows`
  int64_t embedding_values = 0;  // sum of the rows' dims
  std::vector<int64_t> rows_by_tier;
  // Since the table was made, in occurrences of keys in batches (looked_up, hits) or in keys.
  int64_t looked_up = 0, hits = 0;
  int64_t inserted = 0, admitted = 0, refused = 0, promoted = 0;
  int64_t evicted_age = 0, evicted_frequency = 0, evicted_bytes = 0;
  // Longest time in microseconds that a latch was held by each.
  int64_t pause_growth_us = 0, pause_evict_us = 0, pause_snapshot_us = 0;
  std::vector<std::pair<int64_t, uint64_t>> hot_keys;  // most frequent first, at most 32, with occurrences
};

class Table;

// The table as it was when `Table::BeginSnapshot` returned, read while it changes. Rows that are about to change are
// set aside first. Used by one thread; must be destroyed before the table.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // Fills `block` with up to `max_rows` rows of one class; false when all have been given. Holds a latch only for
  // slices of rows.
  virtual bool NextRows(int64_t max_rows, RowBlock* block) = 0;
  // Keys removed since the snapshot before, for a delta; they are to be applied before the delta's rows.
  virtual bool NextRemoved(int64_t max_keys, std::vector<int64_t>* keys) = 0;
  virtual bool NextBloom(BloomSegment* segment) = 0;
  // Whether this is a delta: false also where a delta was asked for and is not possible.
  virtual bool is_delta() const = 0;
  // The caller has what it wanted. Without this call the next snapshot is a full one.
  virtual void Commit() = 0;
};

class Table {
 public:
  // Throws std::invalid_argument with one line that names the field.
  explicit Table(TableSpec spec);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const;
  int width() const;                    // dim of the widest tier
  int num_classes() const;              // tiers + 1
  int dim(int row_class) const;         // 0 for class 0
  int64_t RowBytes(int row_class) const;  // of `RowBlock::rows`; 0 for class 0

  // --- Training -----------------------------------------------------------------------------------------------

  // Embeddings of `n` keys, float32 [n, width], the rest of narrower rows zeros. A key without a row gives, when
  // `training`, its initial value if it would get a row at once (no admission) and the cold value otherwise; zeros
  // (cold value with admission) when not training. Changes nothing but statistics.
  void Pull(const int64_t* keys, int64_t n, Now now, bool training, float* out);

  // Applies `gradient_scale` times the gradients `[n, width]` of a step; `counts[i]`: how often keys[i] occurred.
  // Find or initialise, optimise, write in place under the latch; counts, admits, promotes and expires on the way. A
  // key that is admitted by this very call starts from its initial value; its gradient, which was taken at the cold
  // value, is dropped. Duplicates are applied one after the other. Keys of one sub-table are taken in their order, by
  // one thread each: the result does not depend on the number of threads.
  // `parallel(total, fn)` runs fn(begin, end) over [0, total) on the caller's threads; null: in this thread.
  using Parallel = std::function<void(int64_t total, const std::function<void(int64_t, int64_t)>& fn)>;
  void Push(const int64_t* keys, const uint32_t* counts, const float* gradients, int64_t n, Now now,
            float learning_rate, const Parallel& parallel = nullptr, float gradient_scale = 1.0f);

  // Reclaims expired rows: looks at up to `max_rows` rows, going on where the last call ended. Returns rows freed.
  int64_t Sweep(Now now, int64_t max_rows);

  // --- As a plain hash table (TFRA's view; widest tier only, no admission, no expiry) ----------------------------
  // Values are of the table's own type, `[n, width]`.

  // `defaults`: `[n, width]` or, with `one_default`, `[width]`; `exists` may be null.
  void Find(const int64_t* keys, int64_t n, const void* defaults, bool one_default, void* out, bool* exists);
  void Insert(const int64_t* keys, int64_t n, const void* values);  // duplicates: the last one stays
  // TFRA's accum: where exists[i] is true and the key is there, adds; where it is false and the key is not, inserts.
  void Accumulate(const int64_t* keys, int64_t n, const void* values_or_deltas, const bool* exists);
  void Remove(const int64_t* keys, int64_t n);
  void Clear();
  int64_t size() const;  // rows with an embedding

  // --- Whole table -----------------------------------------------------------------------------------------------

  // Up to `max_rows` rows from `*cursor` on (start with 0); false and an empty block at the end. Rows that are there
  // during the whole iteration come exactly once when nothing is inserted or removed meanwhile.
  bool Export(uint64_t* cursor, int64_t max_rows, RowBlock* block);

  // One at a time; null while another is alive. Waits for pushes that are running; later ones are not in it.
  std::unique_ptr<Snapshot> BeginSnapshot(bool delta);

  // Restore: rows that are there already are replaced. Keys of other PS must have been left out by the caller.
  void InsertRows(const RowBlock& block);
  void MergeBloom(const BloomSegment& segment);  // by the larger count
  int64_t bloom_segment_bytes() const;           // 0 without a Bloom filter
  // What is there now counts as saved: the next delta is against it.
  void MarkSaved();

  // Removed by eviction since the last call, oldest first, at most the newest 4,096 (for the log).
  std::vector<int64_t> TakeEvicted();
  // Meta and row class of a key; false when absent. For inspection.
  bool Look(int64_t key, int* row_class, RowMeta* meta) const;

  TableStats Stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Bytes of a Bloom filter for `capacity` ids at `error`, over all PS.
int64_t BloomBytes(int64_t capacity, double error, uint32_t threshold);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_TABLE_H_
