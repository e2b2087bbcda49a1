// The parts of a table that its functions and its snapshots work on.
#ifndef PS_CLUSTER_OPS_TABLE_TABLE_CORE_H_
#define PS_CLUSTER_OPS_TABLE_TABLE_CORE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/cc/table/gate.h"
#include "ops/cc/table/sub_table.h"
#include "ops/cc/table/table.h"

namespace ps_cluster {

struct TableCore {
  explicit TableCore(const TableSpec& spec) : shared(spec), subs(shared.rules.num_sub_tables()) {
    for (SubTable& sub : subs) sub.Init(&shared);
  }

  const TableRules& rules() const { return shared.rules; }

  Shared shared;
  std::vector<SubTable> subs;
  // Shared by every call that changes rows.
  Gate gate;
  // Under the gate, exclusively.
  bool has_base = false;      // a delta against what was saved is possible
  bool in_snapshot = false;

  // The newest step and hour that a row was updated in.
  std::atomic<uint32_t> newest_step{0}, newest_hour{0};

  std::atomic<int64_t> looked_up{0}, hits{0};
  std::atomic<uint32_t> turn{0};

  std::mutex sweep_mutex;
  int sweep_sub = 0;
  uint32_t sweep_cursor = 0;
};

std::unique_ptr<Snapshot> MakeSnapshot(TableCore* core, bool delta);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_TABLE_CORE_H_
