#include "ops/orc/reader/file_pool.h"

#include <algorithm>
#include <iterator>

namespace ps_cluster::orc {
namespace {

constexpr size_t kMostIdle = 32;
// Of which so many keep bytes of their last stripe: the next part may lie in it.
constexpr size_t kMostLoaded = 4;

}  // namespace

Problem FilePool::Take(const std::string& path, std::unique_ptr<StripeFile>* file) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& entry) { return entry.first == path; });
    if (found != idle_.end()) {
      *file = std::move(found->second);
      idle_.erase(found);
      return Problem();
    }
  }
  return OpenStripeFile(path, verify_, file);
}

void FilePool::GiveBack(const std::string& path, std::unique_ptr<StripeFile> file) {
  std::unique_ptr<StripeFile> oldest;  // closed without the lock
  std::lock_guard<std::mutex> lock(mutex_);
  idle_.emplace_front(path, std::move(file));
  if (idle_.size() > kMostLoaded) std::next(idle_.begin(), kMostLoaded)->second->Forget();
  if (idle_.size() > kMostIdle) {
    oldest = std::move(idle_.back().second);
    idle_.pop_back();
  }
}

}  // namespace ps_cluster::orc
