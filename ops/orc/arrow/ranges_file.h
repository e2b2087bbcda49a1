// A file some ranges of which lie in memory: what was checked is what is decoded, and a remote file is asked seldom.
#ifndef PS_CLUSTER_OPS_ORC_ARROW_RANGES_FILE_H_
#define PS_CLUSTER_OPS_ORC_ARROW_RANGES_FILE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "arrow/result.h"

namespace ps_cluster::orc {

struct ByteRange {
  int64_t start = 0;
  int64_t bytes = 0;

  int64_t end() const { return start + bytes; }
};

// Used by one thread at a time.
class RangesFile : public arrow::io::RandomAccessFile {
 public:
  explicit RangesFile(std::shared_ptr<arrow::io::RandomAccessFile> file) : file_(std::move(file)) {}

  // Reads `ranges` into memory, instead of those that were there; ones no further apart than `gap` by one read.
  arrow::Status Load(std::vector<ByteRange> ranges, int64_t gap);
  void Unload() { blocks_.clear(); }
  // The bytes of a range within one of those loaded.
  arrow::Result<const uint8_t*> Loaded(const ByteRange& range) const;

  arrow::Status Close() override { return file_->Close(); }
  bool closed() const override { return file_->closed(); }
  arrow::Result<int64_t> Tell() const override { return file_->Tell(); }
  arrow::Status Seek(int64_t position) override { return file_->Seek(position); }
  arrow::Result<int64_t> GetSize() override { return file_->GetSize(); }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override { return file_->Read(bytes, out); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override { return file_->Read(bytes); }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, bool allow_short_read, void* out) override;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes, bool allow_short) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override;

 private:
  struct Block {
    ByteRange range;
    std::shared_ptr<arrow::Buffer> content;
  };

  const uint8_t* Find(const ByteRange& range) const;

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::vector<Block> blocks_;  // ascending
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_ARROW_RANGES_FILE_H_
