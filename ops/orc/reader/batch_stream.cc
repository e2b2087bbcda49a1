#include "ops/orc/reader/batch_stream.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace ps_cluster::orc {

BatchStream::BatchStream(std::shared_ptr<const ReadPlan> plan, const StreamPosition& start)
    : plan_(std::move(plan)), position_(start), pending_(1 + plan_->columns.size(), 0) {}

Problem BatchStream::Next(const Cancelled& cancelled, Batch* batch, bool* end) {
  if (!failed_) failed_ = MakeNext(cancelled, batch, end);
  return failed_;
}

Problem BatchStream::MakeNext(const Cancelled& cancelled, Batch* batch, bool* end) {
  if (!opened_) {
    Problem problem = Open(cancelled);
    if (problem) return problem;
    opened_ = true;
  }
  while (position_.epoch < plan_->epochs) {
    *batch = Batch();
    bool epoch_ends = false;
    while (batch->rows < plan_->batch_rows) {
      Problem problem = Refill(cancelled, &epoch_ends);
      if (problem) return problem;
      if (epoch_ends) break;
      Append(std::min(plan_->batch_rows - batch->rows, window_rows_ - used_), batch);
    }
    if (!epoch_ends) {  // what the next window or the epoch's end counts belongs to this batch
      Problem problem = Refill(cancelled, &epoch_ends);
      if (problem) return problem;
    }
    const bool emit = batch->rows == plan_->batch_rows || (batch->rows > 0 && !plan_->drop_remainder);
    if (emit) {
      batch->info = {position_.batches++, batch->rows, position_.epoch};
      batch->info.insert(batch->info.end(), pending_.begin(), pending_.end());
      std::fill(pending_.begin(), pending_.end(), 0);
      position_.row += batch->rows;
      position_.told = true;
    }
    if (epoch_ends) StartEpoch(position_.epoch + 1, 0);
    if (emit) {
      *end = false;
      return Problem();
    }
  }
  *end = true;
  return Problem();
}

Problem BatchStream::Open(const Cancelled& cancelled) {
  if (position_.epoch >= plan_->epochs) return Problem();
  const StreamPosition start = position_;
  const int64_t window = plan_->shuffled() ? start.row / plan_->shuffle_rows : 0;
  // The first row that has to be at hand: the order of a window is that of all its rows.
  const int64_t wanted = plan_->shuffled() ? window * plan_->shuffle_rows : start.row;
  int64_t before = 0;
  const int64_t group = FirstGroup(wanted, &before);
  ahead_ = std::make_unique<ReadAhead>(plan_, start.epoch, group);
  StartEpoch(start.epoch, group);
  position_ = start;
  window_ = window;
  int64_t skipped = 0;
  Problem problem = Skip(cancelled, wanted - before, &skipped);
  if (problem) return problem;
  if (before + skipped < wanted) return TooFewRows(start.row, before + skipped);
  if (start.row == 0) return Problem();
  bool end = false;
  problem = Refill(cancelled, &end);
  if (problem) return problem;
  const int64_t rest = start.row - wanted;  // of the window: delivered
  if (rest > window_rows_) return TooFewRows(start.row, wanted + window_rows_);
  if (rest > 0) {
    Batch delivered;
    Append(rest, &delivered);
    problem = Refill(cancelled, &end);
    if (problem) return problem;
  }
  if (start.told) std::fill(pending_.begin(), pending_.end(), 0);
  if (end) StartEpoch(start.epoch + 1, 0);
  return Problem();
}

Problem BatchStream::Skip(const Cancelled& cancelled, int64_t rows, int64_t* skipped) {
  bool end = false;
  while (*skipped < rows) {
    Problem problem = NextPiece(cancelled, &carried_, &end);
    if (problem || end) return problem;
    const int64_t taken = std::min(carried_.rows, rows - *skipped);
    carried_.first += taken;
    carried_.rows -= taken;
    *skipped += taken;
    // Without shuffling a piece is a window, and this may be the one that the row lies in.
    if (plan_->shuffled() || carried_.rows == 0) std::fill(pending_.begin(), pending_.end(), 0);
  }
  return Problem();
}

Problem BatchStream::TooFewRows(int64_t row, int64_t found) const {
  const std::string path = plan_->parts.empty() ? "samples" : plan_->files[plan_->parts.back().file].path;
  return Problem(path + ": expected at least " + std::to_string(row) + " rows in epoch " +
                 std::to_string(position_.epoch) + ", to go on behind them, found " + std::to_string(found) +
                 "; the files changed");
}

int64_t BatchStream::FirstGroup(int64_t row, int64_t* before) const {
  *before = 0;
  const bool exact = !plan_->skip_bad && (!plan_->kept.empty() || (plan_->where.empty() && !plan_->sampling.active));
  if (!exact || row == 0) return 0;
  const EpochOrder order(plan_->parts.size(), plan_->shuffled(), plan_->seed, position_.epoch, plan_->interleave);
  for (int64_t g = 0; g < order.groups(); ++g) {
    int64_t rows = 0;
    for (const int64_t part : order.Group(g)) {
      rows += plan_->kept.empty() ? plan_->parts[part].rows : plan_->kept[part];
    }
    if (*before == row || *before + rows > row) return g;
    *before += rows;
  }
  return order.groups();
}

void BatchStream::StartEpoch(int64_t epoch, int64_t group) {
  position_.epoch = epoch;
  position_.row = 0;
  order_ = std::make_unique<EpochOrder>(plan_->parts.size(), plan_->shuffled(), plan_->seed, epoch, plan_->interleave);
  group_ = group;
  window_ = 0;
  parts_.clear();
  decoded_.clear();
  chunk_ = turn_ = 0;
  carried_ = Run();
  runs_.clear();
  rows_order_.clear();
  window_rows_ = used_ = 0;
}

Problem BatchStream::NextPiece(const Cancelled& cancelled, Run* piece, bool* end) {
  *end = false;
  *piece = Run();
  while (true) {
    const size_t size = parts_.size();
    if (chunk_ == size) {  // also before the first group
      next_ticket_ += static_cast<int64_t>(size);
      ahead_->Advance(next_ticket_);
      parts_.clear();
      decoded_.clear();
      chunk_ = turn_ = 0;
      if (group_ >= order_->groups()) {
        *end = true;
        return Problem();
      }
      parts_ = order_->Group(group_++);
      decoded_.resize(parts_.size());
      continue;
    }
    const size_t turn = turn_, chunk = chunk_;
    if (++turn_ == size) {
      turn_ = 0;
      ++chunk_;
    }
    const int64_t part_rows = plan_->parts[parts_[turn]].rows;
    const int64_t start = ChunkStart(part_rows, chunk, size);
    const int64_t stop = ChunkStart(part_rows, chunk + 1, size);
    if (start == stop) continue;
    std::shared_ptr<const PartRows>& rows = decoded_[turn];
    if (rows == nullptr) {
      Problem problem = ahead_->Take(next_ticket_ + static_cast<int64_t>(turn), cancelled, &rows);
      if (problem) return problem;
    }
    rows->AddCounts(start, stop, &pending_);
    const int64_t first = rows->KeptBefore(start);
    *piece = {rows, first, rows->KeptBefore(stop) - first};
    if (chunk + 1 == size) rows = nullptr;  // its last piece
    return Problem();
  }
}

Problem BatchStream::NextWindow(const Cancelled& cancelled, bool* end) {
  runs_.clear();
  rows_order_.clear();
  window_rows_ = used_ = 0;
  run_ = 0;
  run_used_ = 0;
  *end = false;
  const int64_t limit = plan_->shuffled() ? plan_->shuffle_rows : std::numeric_limits<int64_t>::max();
  while (window_rows_ < limit) {
    if (carried_.rows == 0) {
      Problem problem = NextPiece(cancelled, &carried_, end);
      if (problem) return problem;
      if (*end) break;
    }
    const int64_t rows = std::min(carried_.rows, limit - window_rows_);
    if (rows > 0) {
      runs_.push_back({carried_.part, carried_.first, rows});
      window_rows_ += rows;
      carried_.first += rows;
      carried_.rows -= rows;
    }
    if (carried_.rows == 0) carried_ = Run();
    if (!plan_->shuffled()) return Problem();  // each piece is a window
  }
  if (window_rows_ == 0) return Problem();
  *end = false;
  if (window_rows_ > std::numeric_limits<uint32_t>::max()) {
    return Problem("shuffle_rows: expected windows below 2^32 rows, found " + std::to_string(window_rows_));
  }
  std::vector<Batch::Row> rows;
  rows.reserve(window_rows_);
  for (size_t r = 0; r < runs_.size(); ++r) {
    for (int64_t i = 0; i < runs_[r].rows; ++i) {
      rows.push_back({static_cast<uint32_t>(r), static_cast<uint32_t>(runs_[r].first + i)});
    }
  }
  const uint64_t key = OrderKey(plan_->seed, position_.epoch, kFirstWindowStream + window_++);
  const std::vector<uint32_t> order = Permutation(window_rows_, key);
  rows_order_.resize(window_rows_);
  for (int64_t j = 0; j < window_rows_; ++j) rows_order_[j] = rows[order[j]];
  return Problem();
}

Problem BatchStream::Refill(const Cancelled& cancelled, bool* end) {
  *end = false;
  while (used_ == window_rows_ && !*end) {
    Problem problem = NextWindow(cancelled, end);
    if (problem) return problem;
  }
  return Problem();
}

void BatchStream::Append(int64_t rows, Batch* batch) {
  batch->rows += rows;
  if (plan_->shuffled()) {
    const auto base = static_cast<uint32_t>(batch->runs.size());
    batch->runs.insert(batch->runs.end(), runs_.begin(), runs_.end());
    for (int64_t i = used_; i < used_ + rows; ++i) {
      batch->order.push_back({rows_order_[i].run + base, rows_order_[i].row});
    }
    used_ += rows;
    return;
  }
  used_ += rows;
  while (rows > 0) {
    const Run& run = runs_[run_];
    const int64_t taken = std::min(rows, run.rows - run_used_);
    batch->runs.push_back({run.part, run.first + run_used_, taken});
    rows -= taken;
    run_used_ += taken;
    if (run_used_ == run.rows) {
      ++run_;
      run_used_ = 0;
    }
  }
}

}  // namespace ps_cluster::orc
