#include "ops/orc/arrow/ranges_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ps_cluster::orc {

arrow::Status RangesFile::Load(std::vector<ByteRange> ranges, int64_t gap) {
  blocks_.clear();
  ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](const ByteRange& r) { return r.bytes == 0; }),
               ranges.end());
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    if (!joined.empty() && range.start <= joined.back().end() + gap) {
      joined.back().bytes = std::max(joined.back().end(), range.end()) - joined.back().start;
    } else {
      joined.push_back(range);
    }
  }
  for (const ByteRange& range : joined) {
    ARROW_ASSIGN_OR_RAISE(auto content, file_->ReadAt(range.start, range.bytes));
    if (content->size() != range.bytes) {
      return arrow::Status::IOError("expected ", range.bytes, " bytes at ", range.start, ", found ", content->size());
    }
    blocks_.push_back({range, std::move(content)});
  }
  return arrow::Status::OK();
}

arrow::Result<const uint8_t*> RangesFile::Loaded(const ByteRange& range) const {
  const uint8_t* found = Find(range);
  if (found == nullptr && range.bytes > 0) return arrow::Status::Invalid("bytes that were not loaded");
  return found;
}

const uint8_t* RangesFile::Find(const ByteRange& range) const {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), range.start,
                                      [](int64_t start, const Block& block) { return start < block.range.start; });
  if (after == blocks_.begin()) return nullptr;
  const Block& block = *(after - 1);
  if (range.end() > block.range.end()) return nullptr;
  return block.content->data() + (range.start - block.range.start);
}

arrow::Result<int64_t> RangesFile::ReadAt(int64_t position, int64_t bytes, void* out) {
  const uint8_t* found = Find({position, bytes});
  if (found == nullptr) return file_->ReadAt(position, bytes, out);
  std::memcpy(out, found, bytes);
  return bytes;
}

arrow::Result<int64_t> RangesFile::ReadAt(int64_t position, int64_t bytes, bool allow_short_read, void* out) {
  if (Find({position, bytes}) == nullptr) return file_->ReadAt(position, bytes, allow_short_read, out);
  return ReadAt(position, bytes, out);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangesFile::ReadAt(int64_t position, int64_t bytes) {
  return file_->ReadAt(position, bytes);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangesFile::ReadAt(int64_t position, int64_t bytes, bool allow_short) {
  return file_->ReadAt(position, bytes, allow_short);
}

}  // namespace ps_cluster::orc
