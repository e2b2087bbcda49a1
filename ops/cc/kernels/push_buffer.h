// Where the gradients of a step wait until every worker's are there.
#ifndef PS_CLUSTER_OPS_KERNELS_PUSH_BUFFER_H_
#define PS_CLUSTER_OPS_KERNELS_PUSH_BUFFER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/mutex.h"

namespace ps_cluster {

// One worker's share of a step. The tensors keep their memory alive.
struct PushedGradients {
  tensorflow::OpKernelContext* ctx = nullptr;
  std::function<void()> done;
  tensorflow::Tensor request;
  tensorflow::Tensor gradients;
  tensorflow::CancellationToken token = tensorflow::CancellationManager::kInvalidToken;
};

class PushBuffer : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "PushBuffer"; }

  // Adds a worker's share. When it is the last of its step, all shares come back in
  // rank order in `step_shares`, and the caller applies them and ends every worker's
  // op; otherwise `step_shares` stays empty and a later caller ends this one's op.
  tensorflow::Status Add(int64_t step, int64_t rank, int num_workers, PushedGradients share,
                         std::vector<PushedGradients>* step_shares) {
    using tensorflow::errors::InvalidArgument;
    if (rank < 0 || rank >= num_workers) {
      return InvalidArgument("request: expected a rank below ", num_workers, ", found ", rank);
    }
    tensorflow::CancellationManager* manager = share.ctx->cancellation_manager();
    tensorflow::mutex_lock lock(mutex_);
    const auto found = waiting_.find(step);
    if (found != waiting_.end() && found->second.count(rank) > 0) {
      return InvalidArgument("request: worker ", rank, " has already pushed for step ", step);
    }
    const int already = found == waiting_.end() ? 0 : static_cast<int>(found->second.size());
    if (already + 1 < num_workers && manager != nullptr) {
      share.token = manager->get_cancellation_token();
      if (!manager->RegisterCallback(share.token, [this, step, rank] { Cancel(step, rank); })) {
        return tensorflow::errors::Cancelled("step ", step, " was cancelled");
      }
    }
    auto& shares = waiting_[step];
    shares[rank] = std::move(share);
    if (static_cast<int>(shares.size()) == num_workers) {
      for (auto& [unused, one] : shares) step_shares->push_back(std::move(one));
      waiting_.erase(step);
    }
    return tensorflow::OkStatus();
  }

  // Held while packed rows are read, changed and written back: no update is lost.
  tensorflow::mutex& packed_mutex() { return packed_mutex_; }

 private:
  void Cancel(int64_t step, int64_t rank) {
    PushedGradients share;
    {
      tensorflow::mutex_lock lock(mutex_);
      const auto found = waiting_.find(step);
      if (found == waiting_.end() || found->second.count(rank) == 0) return;
      share = std::move(found->second[rank]);
      found->second.erase(rank);
      if (found->second.empty()) waiting_.erase(found);
    }
    share.ctx->SetStatus(tensorflow::errors::Cancelled("step ", step, " was cancelled while worker ", rank,
                                                       " waited for the other workers' gradients"));
    share.done();
  }

  tensorflow::mutex mutex_;
  tensorflow::mutex packed_mutex_;
  std::map<int64_t, std::map<int64_t, PushedGradients>> waiting_ TF_GUARDED_BY(mutex_);
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_PUSH_BUFFER_H_
