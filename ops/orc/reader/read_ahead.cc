#include "ops/orc/reader/read_ahead.h"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <exception>
#include <string>

#include "ops/orc/reader/part_reader.h"

namespace ps_cluster::orc {
namespace {

constexpr std::chrono::milliseconds kCancelledPoll(50);

int64_t MostAhead(const ReadPlan& plan) {
  const int64_t group = plan.shuffled() ? plan.interleave : 1;
  return group + std::max(group, plan.decode_threads + 1);
}

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<const ReadPlan> plan, int64_t epoch, int64_t group)
    : plan_(std::move(plan)), most_ahead_(MostAhead(*plan_)), files_(plan_->verify), epoch_(epoch), group_(group) {
  const auto parts = static_cast<int64_t>(plan_->parts.size());
  for (int64_t t = 0; t < std::min(plan_->decode_threads, parts); ++t) threads_.emplace_back([this] { Work(); });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  space_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Problem ReadAhead::Take(int64_t ticket, const Cancelled& cancelled, std::shared_ptr<const PartRows>* rows) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_ready = [&] {
    const int64_t place = ticket - first_ticket_;
    return place < static_cast<int64_t>(slots_.size()) && slots_[place].ready;
  };
  while (!ready_.wait_for(lock, kCancelledPoll, is_ready)) {
    if (cancelled()) return Problem("the read was cancelled");
  }
  Slot& slot = slots_[ticket - first_ticket_];
  *rows = std::move(slot.rows);
  return slot.problem;
}

void ReadAhead::Advance(int64_t ticket) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    slots_.erase(slots_.begin(), slots_.begin() + std::min<int64_t>(ticket - first_ticket_, slots_.size()));
    first_ticket_ = ticket;
  }
  space_.notify_all();
}

void ReadAhead::Work() {
  // TensorFlow's threads take numbers below the smallest normal one for 0, and so would threads that they start.
  std::fesetenv(FE_DFL_ENV);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    space_.wait(lock, [&] { return stopping_ || failed_ || next_ticket_ < first_ticket_ + most_ahead_; });
    int64_t part;
    if (stopping_ || failed_ || !NextPart(&part)) return;
    const int64_t ticket = next_ticket_++;
    slots_.emplace_back();
    lock.unlock();
    auto rows = std::make_shared<PartRows>();
    Problem problem;
    try {
      problem = ReadPart(*plan_, plan_->parts[part], &files_, rows.get());
    } catch (const std::exception& error) {  // out of memory
      problem = Problem(plan_->files[plan_->parts[part].file].path + ": " + error.what());
    }
    lock.lock();
    // The group in use is the oldest one, so this slot is still there.
    Slot& slot = slots_[ticket - first_ticket_];
    slot.ready = true;
    slot.problem = problem;
    slot.rows = std::move(rows);
    failed_ = failed_ || problem;
    ready_.notify_all();
  }
}

bool ReadAhead::NextPart(int64_t* part) {
  while (parts_of_group_.empty()) {
    if (epoch_ >= plan_->epochs) return false;
    if (order_ == nullptr) {
      order_ =
          std::make_unique<EpochOrder>(plan_->parts.size(), plan_->shuffled(), plan_->seed, epoch_, plan_->interleave);
    }
    if (group_ >= order_->groups()) {
      ++epoch_;
      group_ = 0;
      order_ = nullptr;
      continue;
    }
    const std::vector<int64_t> group = order_->Group(group_++);
    parts_of_group_.assign(group.begin(), group.end());
  }
  *part = parts_of_group_.front();
  parts_of_group_.pop_front();
  return true;
}

}  // namespace ps_cluster::orc
