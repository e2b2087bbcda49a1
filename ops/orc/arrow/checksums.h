// The checksums that a file carries in its user metadata; data/format/checksums.py writes them and says what they cover.
#ifndef PS_CLUSTER_OPS_ORC_ARROW_CHECKSUMS_H_
#define PS_CLUSTER_OPS_ORC_ARROW_CHECKSUMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/orc/arrow/ranges_file.h"
#include "ops/orc/reader/problem.h"

namespace ps_cluster::orc {

// Of one top-level column of one stripe: CRC-32s of the bytes of its index and of its data. Entry 0 of a stripe: the
// root's index, and as its data the stripe's footer.
struct ChecksumEntry {
  ByteRange index, data;
  uint32_t index_crc = 0, data_crc = 0;
};

constexpr std::string_view kChecksumsKey = "ps_cluster.checksums";

// What is known of a file apart from its checksums.
struct TailLayout {
  int64_t file_bytes = 0;
  int64_t start = 0;  // of the stripe statistics, which the footer follows
  int64_t footer_end = 0;
  int64_t columns = 0;  // top-level ones
  int64_t stripes = 0;
};

struct Checksums {
  ByteRange tail;
  uint32_t tail_crc = 0;
  int64_t columns = 0;
  std::vector<ChecksumEntry> entries;  // [stripes, 1 + columns]

  const ChecksumEntry& Of(int64_t stripe, int64_t entry) const { return entries[stripe * (1 + columns) + entry]; }
};

// The checksums among a file's metadata, checked against its layout; none when it has none. Problems are without the
// file's name.
Problem ReadChecksums(const std::map<std::string, std::string>& metadata, const TailLayout& layout,
                      std::optional<Checksums>* checksums);

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_ARROW_CHECKSUMS_H_
