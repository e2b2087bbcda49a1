#include "ops/rankmixer/kernels/large_tensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace ps_cluster {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kLeastBytes = kLargePage;
// A block is given back when this many tensors, small ones too, have been asked for since it was left: several steps
// of a deep stack.
constexpr int64_t kMostIdle = 4096;

// Memory that begins with a page of 2 MiB; null if there is none.
void* Map(size_t bytes) {
  void* const mapped =
      mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(mapped);
  const size_t before = (kLargePage - reinterpret_cast<uintptr_t>(start) % kLargePage) % kLargePage;
  if (before > 0) munmap(start, before);
  munmap(start + before + bytes, kLargePage - before);
  madvise(start + before, bytes, MADV_HUGEPAGE);  // refused by some kernels: slower, not wrong
  return start + before;
}

class BlockAllocator : public tensorflow::Allocator {
 public:
  // Never destroyed: tensors may outlive whatever is destroyed at a process's end.
  static BlockAllocator* Instance() {
    static BlockAllocator* const allocator = new BlockAllocator;
    return allocator;
  }

  std::string Name() override { return "ps_cluster_large_tensors"; }

  void* AllocateRaw(size_t, size_t bytes) override {
    NoteAsked();
    tensorflow::mutex_lock lock(mutex_);
    // A block at most a quarter too large: a last batch that is smaller finds one, a vector does not take a matrix'.
    const size_t rounded = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    const auto found = left_.lower_bound(rounded);
    if (found != left_.end() && found->first <= rounded + rounded / 4) {
      void* const block = found->second.data;
      left_bytes_ -= found->first;
      Use(block, found->first);
      left_.erase(found);
      return block;
    }
    void* const block = Map(rounded);
    if (block == nullptr) return nullptr;
    Use(block, rounded);
    return block;
  }

  // Of a tensor of any size: so large batches that are over leave nothing behind.
  void NoteAsked() {
    tensorflow::mutex_lock lock(mutex_);
    ++asked_;
    GiveBack();
  }

  void DeallocateRaw(void* block) override {
    tensorflow::mutex_lock lock(mutex_);
    const auto found = used_.find(block);
    used_bytes_ -= found->second;
    left_bytes_ += found->second;
    left_.emplace(found->second, Left{block, asked_});
    used_.erase(found);
    GiveBack();
  }

 private:
  struct Left {
    void* data;
    int64_t since;
  };
  using Blocks = std::multimap<size_t, Left>;  // by bytes

  void Use(void* block, size_t bytes) TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    used_.emplace(block, bytes);
    used_bytes_ += bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  }

  // Frees blocks, the one left longest ago first, that are idle or beyond what was ever in use at one time. A step's
  // blocks all stay: what its forward pass leaves and what its backward pass does are each in use at one time.
  void GiveBack() TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!left_.empty()) {
      const auto oldest = std::min_element(left_.begin(), left_.end(), [](const auto& one, const auto& other) {
        return one.second.since < other.second.since;
      });
      if (left_bytes_ <= most_used_bytes_ && asked_ - oldest->second.since <= kMostIdle) return;
      munmap(oldest->second.data, oldest->first);
      left_bytes_ -= oldest->first;
      left_.erase(oldest);
    }
  }

  tensorflow::mutex mutex_;
  int64_t asked_ TF_GUARDED_BY(mutex_) = 0;
  size_t used_bytes_ TF_GUARDED_BY(mutex_) = 0;
  size_t most_used_bytes_ TF_GUARDED_BY(mutex_) = 0;
  size_t left_bytes_ TF_GUARDED_BY(mutex_) = 0;
  std::unordered_map<void*, size_t> used_ TF_GUARDED_BY(mutex_);
  Blocks left_ TF_GUARDED_BY(mutex_);
};

bool IsLarge(DataType type, const TensorShape& shape) {
  return static_cast<size_t>(shape.num_elements()) * tensorflow::DataTypeSize(type) >= kLeastBytes;
}

Status Allocate(DataType type, const TensorShape& shape, Tensor* tensor) {
  *tensor = Tensor(BlockAllocator::Instance(), type, shape);
  if (tensor->IsInitialized()) return tensorflow::OkStatus();
  return tensorflow::errors::ResourceExhausted("no memory for a tensor of shape ", shape.DebugString(), " of type ",
                                               tensorflow::DataTypeString(type));
}

}  // namespace

Status AllocateOutput(OpKernelContext* context, int index, const TensorShape& shape, Tensor** output) {
  const DataType type = context->expected_output_dtype(index);
  if (!IsLarge(type, shape)) {
    BlockAllocator::Instance()->NoteAsked();
    return context->allocate_output(index, shape, output);
  }
  Tensor tensor;
  TF_RETURN_IF_ERROR(Allocate(type, shape, &tensor));
  context->set_output(index, tensor);
  *output = context->mutable_output(index);
  return tensorflow::OkStatus();
}

Status AllocateTemp(OpKernelContext* context, DataType type, const TensorShape& shape, Tensor* temp) {
  if (!IsLarge(type, shape)) {
    BlockAllocator::Instance()->NoteAsked();
    return context->allocate_temp(type, shape, temp);
  }
  return Allocate(type, shape, temp);
}

}  // namespace ps_cluster
