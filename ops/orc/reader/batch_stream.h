// The stream of batches: parts lined up, cut into windows, put in order, cut into batches.
#ifndef PS_CLUSTER_OPS_ORC_READER_BATCH_STREAM_H_
#define PS_CLUSTER_OPS_ORC_READER_BATCH_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/orc/reader/order.h"
#include "ops/orc/reader/part_rows.h"
#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/read_ahead.h"
#include "ops/orc/reader/read_plan.h"

namespace ps_cluster::orc {

// Consecutive kept rows of a part.
struct Run {
  std::shared_ptr<const PartRows> part;
  int64_t first = 0;
  int64_t rows = 0;
};

// The rows of one batch, where they lie.
struct Batch {
  // One row: of runs[run], the row `row` (not counted from the run's first).
  struct Row {
    uint32_t run;
    uint32_t row;
  };

  int64_t rows = 0;
  std::vector<Run> runs;
  std::vector<Row> order;     // [rows]; empty: the runs one after the other
  std::vector<int64_t> info;  // batch number, rows, epoch, rows lost, nulls filled of each declared column
};

// A place in the stream: `row` rows of `epoch` have been delivered, after `batches` batches.
struct StreamPosition {
  int64_t epoch = 0;
  int64_t row = 0;
  int64_t batches = 0;
  // Whether those batches told of what was counted in the window that the row lies in. If not, the next one does.
  bool told = false;
};

// Rows held: one window and what `ReadAhead` holds.
class BatchStream {
 public:
  // The rest of the stream from `start` on. Where the rows of each part are known it is found without decoding what
  // lies before; else its epoch is read from its beginning.
  BatchStream(std::shared_ptr<const ReadPlan> plan, const StreamPosition& start);

  // The next batch, or `end`. After a problem, it is the same one for ever.
  Problem Next(const Cancelled& cancelled, Batch* batch, bool* end);
  // Behind the last batch.
  StreamPosition position() const { return position_; }

 private:
  Problem MakeNext(const Cancelled& cancelled, Batch* batch, bool* end);
  // Opens `position_.epoch` and moves to `position_.row`.
  Problem Open(const Cancelled& cancelled);
  // Skips `rows` rows of the epoch, and what was counted with them.
  Problem Skip(const Cancelled& cancelled, int64_t rows, int64_t* skipped);
  Problem TooFewRows(int64_t row, int64_t found) const;
  // Group of the epoch where reading begins to reach row `row`; `before`: rows of the groups before it.
  int64_t FirstGroup(int64_t row, int64_t* before) const;
  void StartEpoch(int64_t epoch, int64_t group);
  // The kept rows of the next piece, may be none; `end` when the epoch has no more.
  Problem NextPiece(const Cancelled& cancelled, Run* piece, bool* end);
  // Makes the next window, which may be empty without shuffling; `end` when the epoch has no more.
  Problem NextWindow(const Cancelled& cancelled, bool* end);
  // Makes windows until there is a row that is not used; `end` when the epoch has none.
  Problem Refill(const Cancelled& cancelled, bool* end);
  // Moves rows of the window to the end of `batch`.
  void Append(int64_t rows, Batch* batch);

  const std::shared_ptr<const ReadPlan> plan_;
  StreamPosition position_;
  bool opened_ = false;
  Problem failed_;

  // The epoch.
  std::unique_ptr<ReadAhead> ahead_;
  std::unique_ptr<EpochOrder> order_;
  int64_t group_ = 0;  // the next one
  int64_t next_ticket_ = 0;
  std::vector<int64_t> parts_;                            // of the group in use
  std::vector<std::shared_ptr<const PartRows>> decoded_;  // of those that were needed so far
  size_t chunk_ = 0, turn_ = 0;                           // next piece: chunk `chunk_` of part `turn_` of the group

  // The window.
  int64_t window_ = 0;  // number of the next one
  Run carried_;         // rows of the last piece that belong to the next window
  std::vector<Run> runs_;
  std::vector<Batch::Row> rows_order_;
  int64_t window_rows_ = 0;
  int64_t used_ = 0;
  size_t run_ = 0;  // without shuffling: the run that the next row lies in
  int64_t run_used_ = 0;
  std::vector<int64_t> pending_;  // counts of windows that no batch has told of
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_BATCH_STREAM_H_
