// Files wherever they lie: local paths, file://, s3:// and hdfs:// addresses, set up as data/files.py does.
#ifndef PS_CLUSTER_OPS_ORC_ARROW_OPEN_INPUT_H_
#define PS_CLUSTER_OPS_ORC_ARROW_OPEN_INPUT_H_

#include <memory>
#include <string>

#include "arrow/io/interfaces.h"
#include "arrow/result.h"

namespace ps_cluster::orc {

struct Input {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  bool remote = false;  // each read is a request over a network
};

// Local files are read, not memory-mapped: one that is cut off meanwhile is an error, not a signal that kills.
arrow::Result<Input> OpenInput(const std::string& path);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_ARROW_OPEN_INPUT_H_
