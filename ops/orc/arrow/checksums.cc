#include "ops/orc/arrow/checksums.h"

#include <cstring>

#include "arrow/util/crc32.h"

namespace ps_cluster::orc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

constexpr uint32_t kFormat = 2;
constexpr size_t kHeaderBytes = 28;
constexpr size_t kEntryBytes = 32;
constexpr size_t kCrcBytes = 4;

template <typename T>
T Number(const std::string& value, size_t at) {
  T number;
  std::memcpy(&number, value.data() + at, sizeof(T));
  return number;
}

// Whether a value has the form of checksums and fits its own CRC.
bool IsWhole(const std::string& value) {
  if (value.size() < kHeaderBytes + kCrcBytes || Number<uint32_t>(value, 0) != kFormat) return false;
  const uint64_t entries = (uint64_t{1} + Number<uint32_t>(value, 4)) * Number<uint32_t>(value, 8);
  const size_t content = value.size() - kCrcBytes;
  if ((content - kHeaderBytes) % kEntryBytes != 0 || (content - kHeaderBytes) / kEntryBytes != entries) return false;
  return arrow::internal::crc32(0, value.data(), content) == Number<uint32_t>(value, content);
}

Problem Damaged(const std::string& what) {
  return Problem("expected checksums of this file, found damaged ones (" + what + ")");
}

bool Within(const ByteRange& range, int64_t limit) {
  return range.start >= 0 && range.bytes >= 0 && range.bytes <= limit && range.start <= limit - range.bytes;
}

}  // namespace

Problem ReadChecksums(const std::map<std::string, std::string>& metadata, const TailLayout& layout,
                      std::optional<Checksums>* checksums) {
  const auto found = metadata.find(std::string(kChecksumsKey));
  if (found == metadata.end()) {
    // One wrong byte in the name must not pass for a file without checksums; its value still proves what it is.
    for (const auto& [name, value] : metadata) {
      if (IsWhole(value)) return Damaged("their name is another");
    }
    return Problem();
  }
  const std::string& value = found->second;
  if (!IsWhole(value)) return Damaged("they do not fit their own checksum");
  Checksums read;
  read.columns = Number<uint32_t>(value, 4);
  const int64_t stripes = Number<uint32_t>(value, 8);
  read.tail = {Number<int64_t>(value, 12), Number<uint32_t>(value, 20)};
  read.tail_crc = Number<uint32_t>(value, 24);
  if (read.columns != layout.columns || stripes != layout.stripes) {
    return Damaged("they are of " + std::to_string(stripes) + " stripes and " + std::to_string(read.columns) +
                   " columns, the file has " + std::to_string(layout.stripes) + " and " +
                   std::to_string(layout.columns));
  }
  if (read.tail.start != layout.start || read.tail.end() >= layout.footer_end) {
    return Damaged("its tail starts at byte " + std::to_string(layout.start) + ", expected at " +
                   std::to_string(read.tail.start));
  }
  for (int64_t e = 0; e < stripes * (1 + read.columns); ++e) {
    const size_t at = kHeaderBytes + e * kEntryBytes;
    ChecksumEntry entry;
    entry.index = {Number<int64_t>(value, at), Number<uint32_t>(value, at + 8)};
    entry.data = {Number<int64_t>(value, at + 12), Number<uint32_t>(value, at + 20)};
    entry.index_crc = Number<uint32_t>(value, at + 24);
    entry.data_crc = Number<uint32_t>(value, at + 28);
    if (!Within(entry.index, layout.file_bytes) || !Within(entry.data, layout.file_bytes)) {
      return Damaged("they are of bytes behind the file's end");
    }
    read.entries.push_back(entry);
  }
  *checksums = std::move(read);
  return Problem();
}

}  // namespace ps_cluster::orc
