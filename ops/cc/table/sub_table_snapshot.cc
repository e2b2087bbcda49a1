// The rows as they were when a snapshot began, while they change.
#include "ops/cc/table/sub_table.h"

#include <algorithm>

#include "ops/cc/table/pause.h"

namespace ps_cluster {
namespace {

constexpr int64_t kAsideRows = 256;  // of a block

}  // namespace

// All rows were updated at steps up to these, so that only changes from now on take one beyond.
void SubTable::Unmark() { unmarked_up_to_ = std::max(latest_.step, restored_step_); }

void SubTable::BeginSnapshot() {
  epoch_ = shared_->epoch;
  Unmark();
  const bool delta = shared_->epoch_is_delta;
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([delta](RowBits& bits) {
      bits.pending = delta ? bits.live & bits.dirty : bits.live;
      bits.dirty = 0;
    });
  }
  for (Segment& segment : segments_) {
    segment.pending = segment.counters.allocated() && (segment.dirty || !delta);
    segment.dirty = false;
  }
  removed_before_.swap(removed_);
  removed_ = std::vector<int64_t>();
}

void SubTable::SetAside(uint32_t ref) {
  if (aside_.empty()) aside_.resize(layout().num_classes());
  std::vector<RowBlock>& blocks = aside_[ClassOf(ref)];
  if (blocks.empty() || blocks.back().size() == kAsideRows) {
    blocks.emplace_back();
    blocks.back().row_class = ClassOf(ref);
  }
  AppendRow(layout(), RowOf(ref), &blocks.back());
  const RowSlabs& slabs = slabs_[ClassOf(ref)];
  slabs.BitsOf(NumberOf(ref))->pending &= ~slabs.Bit(NumberOf(ref));
}

void SubTable::TakePending(int64_t rows, uint32_t* cursor, RowBlock* block) {
  const Pause pause(&counts_.pause_snapshot_us);
  const RowSlabs& slabs = slabs_[block->row_class];
  for (;;) {
    const uint32_t row = slabs.Next(*cursor, &RowBits::pending);
    *cursor = row;
    if (row == kNone || rows-- == 0) return;
    AppendRow(layout(), slabs.At(row), block);
    slabs.BitsOf(row)->pending &= ~slabs.Bit(row);
    *cursor = row + 1;
  }
}

std::vector<RowBlock> SubTable::TakeAside(int row_class) {
  std::vector<RowBlock> blocks;
  if (!aside_.empty()) blocks.swap(aside_[row_class]);
  return blocks;
}

bool SubTable::TakeBloom(int number, std::vector<uint8_t>* counters) {
  Segment& segment = SegmentOf(number);
  const Pause pause(&counts_.pause_snapshot_us);
  const int64_t bytes = rules().bloom().segment_bytes();
  if (segment.aside != nullptr) {
    counters->assign(segment.aside.get(), segment.aside.get() + bytes);
    segment.aside.reset();
    return true;
  }
  if (!segment.pending) return false;
  counters->assign(segment.counters.data(), segment.counters.data() + bytes);
  segment.pending = false;
  return true;
}

void SubTable::EndSnapshot() {
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([](RowBits& bits) { bits.pending = 0; });
  }
  for (Segment& segment : segments_) {
    segment.pending = false;
    segment.aside.reset();
  }
  aside_.clear();
  removed_before_ = std::vector<int64_t>();
}

void SubTable::MarkSaved() {
  Unmark();
  for (int c = 0; c < layout().num_classes(); ++c) {
    slabs_[c].ForEachWord([](RowBits& bits) { bits.dirty = 0; });
  }
  for (Segment& segment : segments_) segment.dirty = false;
  removed_ = std::vector<int64_t>();
}

void SubTable::MergeBloom(int segment, const uint8_t* counters) {
  if (BeforeBloomChange(segment)) SegmentOf(segment).counters.Merge(rules().bloom(), counters);
}

}  // namespace ps_cluster
