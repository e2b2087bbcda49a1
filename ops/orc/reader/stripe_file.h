// An ORC file from which rows of a stripe are decoded; Arrow's side of the library lies behind it.
#ifndef PS_CLUSTER_OPS_ORC_READER_STRIPE_FILE_H_
#define PS_CLUSTER_OPS_ORC_READER_STRIPE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/orc/reader/problem.h"
#include "ops/orc/reader/raw_rows.h"

namespace ps_cluster::orc {

// Rows `start` to `start + rows` of a stripe; the other figures are what the plan of the read found.
struct StripeRange {
  int64_t stripe = 0;
  int64_t first_row = 0;  // of the stripe, in the file
  int64_t stripe_rows = 0;
  int64_t start = 0;
  int64_t rows = 0;
};

// Used by one thread at a time.
class StripeFile {
 public:
  virtual ~StripeFile() = default;

  // Decodes the columns with these names, in their order.
  virtual Problem Decode(const StripeRange& range, const std::vector<std::string>& names,
                         std::vector<RawColumn>* columns) = 0;
  // Drops bytes of the file that are kept in memory for the next call.
  virtual void Forget() = 0;
};

// Opens a local path or a URI. `verify`: bytes are compared with the checksums in the file, where it has any, before
// they are decoded.
Problem OpenStripeFile(const std::string& path, bool verify, std::unique_ptr<StripeFile>* file);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_STRIPE_FILE_H_
