// A table's state at one instant, read slice by slice while the table changes.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/cc/table/table_core.h"

namespace ps_cluster {
namespace {

constexpr int64_t kSliceBytes = 64 << 10;  // copied under a latch

using LatchLock = std::lock_guard<Latch>;

class TableSnapshot : public Snapshot {
 public:
  TableSnapshot(TableCore* core, bool is_delta) : core_(core), is_delta_(is_delta) {}

  ~TableSnapshot() override {
    for (SubTable& sub : core_->subs) {
      const LatchLock lock(sub.latch);
      sub.Sync();
      sub.EndSnapshot();
    }
    const std::lock_guard<Gate> alone(core_->gate);
    core_->in_snapshot = false;
    core_->has_base = committed_;
  }

  bool NextRows(int64_t max_rows, RowBlock* block) override {
    block->clear();
    const int classes = core_->rules().layout().num_classes();
    while (row_class_ < classes) {
      block->row_class = row_class_;
      if (Fill(max_rows, block)) return true;
      ++row_class_;
      if (block->size() > 0) return true;
    }
    return false;
  }

  bool NextRemoved(int64_t max_keys, std::vector<int64_t>* keys) override {
    keys->clear();
    while (is_delta_ && static_cast<int64_t>(keys->size()) < max_keys) {
      if (removed_.empty()) {
        if (removed_sub_ == core_->subs.size()) break;
        SubTable& sub = core_->subs[removed_sub_++];
        const LatchLock lock(sub.latch);
        sub.Sync();
        removed_ = sub.TakeRemoved();
        continue;
      }
      const int64_t most = max_keys - static_cast<int64_t>(keys->size());
      const size_t left = removed_.size() - std::min<size_t>(removed_.size(), most);
      keys->insert(keys->end(), removed_.begin() + left, removed_.end());
      removed_.resize(left);
    }
    return !keys->empty();
  }

  bool NextBloom(BloomSegment* segment) override {
    if (core_->rules().bloom().segment_bytes() == 0) return false;
    while (segment_ < kBloomSegments) {
      segment->index = segment_++;
      SubTable& sub = core_->subs[segment->index & (core_->subs.size() - 1)];
      const LatchLock lock(sub.latch);
      sub.Sync();
      if (sub.TakeBloom(segment->index, &segment->counters)) return true;
    }
    return false;
  }

  bool is_delta() const override { return is_delta_; }
  void Commit() override { committed_ = true; }

 private:
  // Adds rows of the class in hand; whether the block is full.
  bool Fill(int64_t max_rows, RowBlock* block) {
    const int64_t slice = std::max<int64_t>(1, kSliceBytes / core_->rules().layout().of(row_class_).stride);
    for (;;) {
      TakeFromAside(max_rows, block);
      const int64_t room = max_rows - block->size();
      if (room == 0) return true;
      if (sub_ == core_->subs.size()) {
        sub_ = 0;
        return false;
      }
      SubTable& sub = core_->subs[sub_];
      const int64_t rows = std::min(room, slice);
      MakeRoom(rows, block);
      const LatchLock lock(sub.latch);
      sub.Sync();
      sub.TakePending(rows, &cursor_, block);
      if (cursor_ != SubTable::kNone) continue;
      // Nothing of this class is set aside here from now on.
      aside_ = sub.TakeAside(row_class_);
      cursor_ = 0;
      ++sub_;
    }
  }

  // So that nothing is copied to a bigger place under a latch.
  void MakeRoom(int64_t rows, RowBlock* block) const {
    const auto reserve = [](auto* list, size_t more) {
      if (list->capacity() - list->size() < more) list->reserve(std::max(2 * list->capacity(), list->size() + more));
    };
    reserve(&block->keys, rows);
    reserve(&block->meta, rows);
    reserve(&block->rows, rows * core_->rules().layout().of(row_class_).row_bytes);
  }

  void TakeFromAside(int64_t max_rows, RowBlock* block) {
    const int64_t bytes = core_->rules().layout().of(row_class_).row_bytes;
    while (!aside_.empty() && block->size() < max_rows) {
      const RowBlock& from = aside_.back();
      const int64_t start = aside_taken_, end = std::min(from.size(), start + max_rows - block->size());
      block->keys.insert(block->keys.end(), from.keys.begin() + start, from.keys.begin() + end);
      block->meta.insert(block->meta.end(), from.meta.begin() + start, from.meta.begin() + end);
      block->rows.insert(block->rows.end(), from.rows.begin() + start * bytes, from.rows.begin() + end * bytes);
      aside_taken_ = end;
      if (end < from.size()) return;
      aside_.pop_back();
      aside_taken_ = 0;
    }
  }

  TableCore* const core_;
  const bool is_delta_;
  bool committed_ = false;
  // The next row.
  int row_class_ = 0;
  size_t sub_ = 0;
  uint32_t cursor_ = 0;
  std::vector<RowBlock> aside_;
  int64_t aside_taken_ = 0;
  // The next removed key and segment.
  size_t removed_sub_ = 0;
  std::vector<int64_t> removed_;
  int segment_ = 0;
};

}  // namespace

std::unique_ptr<Snapshot> MakeSnapshot(TableCore* core, bool delta) {
  const std::lock_guard<Gate> alone(core->gate);
  if (core->in_snapshot) return nullptr;
  core->in_snapshot = true;
  const bool lost = core->shared.lost_removed.exchange(false, std::memory_order_relaxed);
  const bool is_delta = delta && core->has_base && !lost && core->rules().spec().track_removed;
  ++core->shared.epoch;
  core->shared.epoch_is_delta = is_delta;
  core->has_base = false;
  return std::make_unique<TableSnapshot>(core, is_delta);
}

}  // namespace ps_cluster
