// The plan of a read, from the inputs and attributes of the op.
#ifndef PS_CLUSTER_OPS_ORC_KERNELS_PLAN_INPUTS_H_
#define PS_CLUSTER_OPS_ORC_KERNELS_PLAN_INPUTS_H_

#include <string>
#include <vector>

#include "ops/orc/reader/batch_stream.h"
#include "ops/orc/reader/read_plan.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster::orc {

struct PlanAttributes {
  std::vector<std::string> sources, names;
  std::vector<bool> needed_first;
  std::vector<int64_t> condition_sizes;
  bool filtered = false, sampled = false, drop_remainder = false, skip_bad = false, verify = true;
  int64_t label = 0, sampling_seed = 0, batch_rows = 1, epochs = 1, shuffle_rows = 0, seed = 0, interleave = 1;
  int64_t decode_threads = 1, batches = 0;
  StreamPosition start;
};

tensorflow::Status ReadAttributes(tensorflow::OpKernelConstruction* ctx, PlanAttributes* attributes);

// Every figure in it is checked.
tensorflow::Status MakePlan(const tensorflow::OpInputList& inputs, const PlanAttributes& attributes, ReadPlan* plan);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_KERNELS_PLAN_INPUTS_H_
