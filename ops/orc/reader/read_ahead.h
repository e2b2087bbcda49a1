// Threads that read parts ahead of their use, in a bounded number.
#ifndef PS_CLUSTER_OPS_ORC_READER_READ_AHEAD_H_
#define PS_CLUSTER_OPS_ORC_READER_READ_AHEAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ops/orc/reader/file_pool.h"
#include "ops/orc/reader/order.h"
#include "ops/orc/reader/part_rows.h"
#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/read_plan.h"

namespace ps_cluster::orc {

// Tells whether whoever waits for rows does not want them any more.
using Cancelled = std::function<bool()>;

// Reads the parts of all epochs, from a group of an epoch on, in order. A part's number in that sequence is its ticket.
//
// Beside the group in use, at most max(interleave, threads + 1) parts are held.
class ReadAhead {
 public:
  ReadAhead(std::shared_ptr<const ReadPlan> plan, int64_t epoch, int64_t group);
  // Waits for the parts that are being decoded.
  ~ReadAhead();

  // The rows of the part with this ticket, which can be taken once.
  Problem Take(int64_t ticket, const Cancelled& cancelled, std::shared_ptr<const PartRows>* rows);
  // The group in use begins with this ticket.
  void Advance(int64_t ticket);

 private:
  struct Slot {
    bool ready = false;
    Problem problem;
    std::shared_ptr<const PartRows> rows;
  };

  void Work();
  // Number of the next part; false when there is none. Under `mutex_`.
  bool NextPart(int64_t* part);

  const std::shared_ptr<const ReadPlan> plan_;
  const int64_t most_ahead_;
  FilePool files_;

  std::mutex mutex_;
  std::condition_variable space_, ready_;
  bool stopping_ = false;
  bool failed_ = false;
  std::deque<Slot> slots_;  // of the tickets from `first_ticket_` on
  int64_t first_ticket_ = 0;
  int64_t next_ticket_ = 0;

  int64_t epoch_, group_;
  std::unique_ptr<EpochOrder> order_;
  std::deque<int64_t> parts_of_group_;

  std::vector<std::thread> threads_;
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_READ_AHEAD_H_
