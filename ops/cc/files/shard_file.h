// The file in which one PS keeps its part of one table: blocks of rows, each under a checksum of its own.
//
// All numbers are little-endian. A file is a header, blocks, and a block that says that it ends here:
//
//   header   char[8] magic "PSCTABLE", u32 version, u32 flags (1: a delta), u32 bytes of text, text (JSON),
//            u32 CRC-32C of all before
//   block    u32 magic "PSCB", u32 number of the block from 0, u8 kind, u8 row class, u8 flags (1: with hours), u8 0,
//            u32 bytes of a row, u64 count, u64 bytes of the payload, u32 CRC-32C of the payload,
//            u32 CRC-32C of the file header's CRC and all before in this block; payload
//   rows     (kind 1) i64 key, u32 last step, u32 frequency, u32 hour (if the flag is set), row bytes: each column
//            for all `count` rows
//   removed  (kind 2) i64 keys, of a delta: to be removed before its rows are put in
//   bloom    (kind 3) `count` times: u32 number of the segment, u32 bytes, counters
//   end      (kind 4) u64 blocks, rows, counted keys, removed keys, Bloom segments; u32 digest (CRC-32C of
//            the file header's CRC and the headers, without their own CRC, of all blocks before), u32 0
//
// A block belongs to its file and its place: taken from another file or moved it is found out.
#ifndef PS_CLUSTER_OPS_FILES_SHARD_FILE_H_
#define PS_CLUSTER_OPS_FILES_SHARD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/cc/table/table.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/status.h"

namespace ps_cluster {

// What is written at once, about: large enough for object stores, small beside the table.
constexpr int64_t kShardBlockBytes = 4 << 20;

enum class BlockKind : uint8_t { kRows = 1, kRemoved = 2, kBloom = 3, kEnd = 4 };

struct ShardTotals {
  uint64_t blocks = 0;  // without the end
  uint64_t rows = 0;
  uint64_t counted_keys = 0;  // rows of class 0
  uint64_t removed = 0;
  uint64_t bloom_segments = 0;
  uint64_t bytes = 0;   // of the whole file
  uint32_t digest = 0;  // of the end: another one for every other content
};

// Rows of one class that go into one block.
int64_t RowsPerBlock(int64_t row_bytes);

// Writes a file that appears under its name when it is whole: locally it is written beside, brought to the disk and
// renamed; in an object store the object appears when it is closed.
class ShardWriter {
 public:
  static tensorflow::Status Create(tensorflow::Env* env, const std::string& path, const std::string& header,
                                   bool is_delta, std::unique_ptr<ShardWriter>* writer);
  ~ShardWriter();  // without `Finish`: nothing stays

  tensorflow::Status AddRows(const RowBlock& block);
  tensorflow::Status AddRemoved(const std::vector<int64_t>& keys);
  tensorflow::Status AddBloom(const BloomSegment& segment);
  tensorflow::Status Finish(ShardTotals* totals);

 private:
  ShardWriter(tensorflow::Env* env, const std::string& path) : env_(env), path_(path) {}
  tensorflow::Status FlushBloom();
  // `parts`: the payload in pieces.
  tensorflow::Status AddBlock(BlockKind kind, int row_class, bool hours, uint32_t row_bytes, uint64_t count,
                              const std::vector<tensorflow::StringPiece>& parts);
  tensorflow::Status Append(tensorflow::StringPiece bytes);

  tensorflow::Env* env_;
  std::string path_;
  std::string beside_;  // where it is written; `path_` itself in object stores
  std::unique_ptr<tensorflow::WritableFile> file_;
  std::string bloom_;
  uint64_t bloom_count_ = 0;
  uint32_t header_crc_ = 0;
  ShardTotals totals_;
  std::vector<uint32_t> column_;
};

struct ShardBlock {
  BlockKind kind = BlockKind::kEnd;
  RowBlock rows;
  int64_t row_bytes = 0;
  std::vector<int64_t> removed;
  std::vector<BloomSegment> bloom;
};

// Where a reader stands, so that another can go on from there.
struct ShardCursor {
  uint64_t offset = 0;
  ShardTotals so_far;
};

// Reads a file block by block. Every byte is checked; an error names the file, the block and what is wrong with it.
class ShardReader {
 public:
  static tensorflow::Status Open(tensorflow::Env* env, const std::string& path, std::unique_ptr<ShardReader>* reader);

  const std::string& path() const { return path_; }
  const std::string& header() const { return header_; }
  bool is_delta() const { return is_delta_; }

  // The next block; `kEnd` at the end, after which `totals()` are those of the whole file.
  tensorflow::Status Next(ShardBlock* block);
  const ShardTotals& totals() const { return cursor_.so_far; }
  const ShardCursor& cursor() const { return cursor_; }
  void Seek(const ShardCursor& cursor);

 private:
  ShardReader(const std::string& path) : path_(path) {}
  tensorflow::Status ReadHeader();
  tensorflow::Status Read(uint64_t offset, uint64_t bytes, char* out, const std::string& what);
  tensorflow::Status Decode(const char* header, const char* payload, uint64_t bytes, ShardBlock* block);
  std::string Where() const;

  std::string path_;
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  uint64_t file_bytes_ = 0;
  std::string header_;
  bool is_delta_ = false;
  uint32_t header_crc_ = 0;
  ShardCursor cursor_;
  std::vector<char> buffer_;  // a payload and the header of the block behind it
  std::vector<char> next_header_;
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_FILES_SHARD_FILE_H_
