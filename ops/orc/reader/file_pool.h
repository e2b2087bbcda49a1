// Open files that are kept for the next part: a thread takes one for itself and gives it back.
#ifndef PS_CLUSTER_OPS_ORC_READER_FILE_POOL_H_
#define PS_CLUSTER_OPS_ORC_READER_FILE_POOL_H_

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/stripe_file.h"

namespace ps_cluster::orc {

class FilePool {
 public:
  explicit FilePool(bool verify) : verify_(verify) {}

  // An open file, for the caller alone until `GiveBack`.
  Problem Take(const std::string& path, std::unique_ptr<StripeFile>* file);
  void GiveBack(const std::string& path, std::unique_ptr<StripeFile> file);

 private:
  const bool verify_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::unique_ptr<StripeFile>>> idle_;  // the last one used comes first
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_FILE_POOL_H_
