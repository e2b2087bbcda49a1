#include "ops/cc/files/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/path.h"

namespace ps_cluster {
namespace {

using tensorflow::Env;
using tensorflow::OkStatus;
using tensorflow::Status;
using tensorflow::StringPiece;
using tensorflow::crc32c::Extend;
using tensorflow::crc32c::Value;
using tensorflow::errors::DataLoss;
using tensorflow::errors::Internal;
using tensorflow::errors::InvalidArgument;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

constexpr char kMagic[] = "PSCTABLE";
constexpr char kBlockMagic[] = "PSCB";
constexpr uint32_t kVersion = 2;
constexpr uint32_t kDeltaFlag = 1;
constexpr uint8_t kHoursFlag = 1;
constexpr size_t kFileHeaderBytes = 20;  // before the text
constexpr size_t kBlockHeaderBytes = 40;
constexpr uint64_t kMostHeaderBytes = 1 << 24;

struct BlockHeader {
  char magic[4];
  uint32_t number;
  uint8_t kind;
  uint8_t row_class;
  uint8_t flags;
  uint8_t zero;
  uint32_t row_bytes;
  uint64_t count;
  uint64_t payload_bytes;
  uint32_t payload_crc;
  uint32_t crc;
};
static_assert(sizeof(BlockHeader) == kBlockHeaderBytes, "a block's header has no gaps");

struct EndPayload {
  uint64_t blocks, rows, counted_keys, removed, bloom_segments;
  uint32_t digest;
  uint32_t zero;
};
static_assert(sizeof(EndPayload) == 48, "the end's payload has no gaps");

uint32_t HeaderCrc(uint32_t file_crc, const BlockHeader& header) {
  const uint32_t crc = Value(reinterpret_cast<const char*>(&file_crc), sizeof(file_crc));
  return Extend(crc, reinterpret_cast<const char*>(&header), kBlockHeaderBytes - sizeof(header.crc));
}

// Without the header's own CRC: a CRC over a text and its CRC would be the same for every text.
uint32_t ExtendDigest(uint32_t digest, const BlockHeader& header) {
  return Extend(digest, reinterpret_cast<const char*>(&header), kBlockHeaderBytes - sizeof(header.crc));
}

uint32_t FirstDigest(uint32_t file_crc) { return Value(reinterpret_cast<const char*>(&file_crc), sizeof(file_crc)); }

template <typename T>
StringPiece Bytes(const std::vector<T>& values) {
  return StringPiece(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Counts a block in `totals`, which then are those up to its end.
void CountBlock(const BlockHeader& header, ShardTotals* totals) {
  switch (static_cast<BlockKind>(header.kind)) {
    case BlockKind::kRows:
      (header.row_class == 0 ? totals->counted_keys : totals->rows) += header.count;
      break;
    case BlockKind::kRemoved:
      totals->removed += header.count;
      break;
    case BlockKind::kBloom:
      totals->bloom_segments += header.count;
      break;
    case BlockKind::kEnd:
      break;
  }
  if (static_cast<BlockKind>(header.kind) != BlockKind::kEnd) {
    ++totals->blocks;
    totals->digest = ExtendDigest(totals->digest, header);
  }
  totals->bytes += kBlockHeaderBytes + header.payload_bytes;
}

bool IsLocal(const std::string& path) { return path.find("://") == std::string::npos; }

// TensorFlow's own Sync only empties the buffers of the process.
Status BringToDisk(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return tensorflow::errors::IOError(path, errno);
  const int failed = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // EINVAL: the file system has no such thing as bringing to disk.
  return failed == 0 || failed == EINVAL ? OkStatus() : tensorflow::errors::IOError(path, failed);
}

}  // namespace

int64_t RowsPerBlock(int64_t row_bytes) {
  return std::max<int64_t>(1024, kShardBlockBytes / (row_bytes + static_cast<int64_t>(3 * sizeof(int64_t))));
}

Status ShardWriter::Create(Env* env, const std::string& path, const std::string& header, bool is_delta,
                           std::unique_ptr<ShardWriter>* writer) {
  if (header.size() > kMostHeaderBytes) return InvalidArgument(path, ": header of ", header.size(), " bytes");
  std::unique_ptr<ShardWriter> made(new ShardWriter(env, path));
  made->beside_ = IsLocal(path) ? path + ".part" : path;
  TF_RETURN_IF_ERROR(env->NewWritableFile(made->beside_, &made->file_));
  char fixed[kFileHeaderBytes];
  const uint32_t flags = is_delta ? kDeltaFlag : 0;
  const uint32_t bytes = static_cast<uint32_t>(header.size());
  std::memcpy(fixed, kMagic, 8);
  std::memcpy(fixed + 8, &kVersion, 4);
  std::memcpy(fixed + 12, &flags, 4);
  std::memcpy(fixed + 16, &bytes, 4);
  uint32_t crc = Extend(Value(fixed, sizeof(fixed)), header.data(), header.size());
  TF_RETURN_IF_ERROR(made->Append(StringPiece(fixed, sizeof(fixed))));
  TF_RETURN_IF_ERROR(made->Append(header));
  TF_RETURN_IF_ERROR(made->Append(StringPiece(reinterpret_cast<const char*>(&crc), sizeof(crc))));
  made->header_crc_ = crc;
  made->totals_.digest = FirstDigest(crc);
  made->totals_.bytes = kFileHeaderBytes + header.size() + sizeof(crc);
  *writer = std::move(made);
  return OkStatus();
}

ShardWriter::~ShardWriter() {
  if (file_ == nullptr) return;
  file_->Close().IgnoreError();
  file_.reset();
  env_->DeleteFile(beside_).IgnoreError();
}

Status ShardWriter::Append(StringPiece bytes) { return bytes.empty() ? OkStatus() : file_->Append(bytes); }

Status ShardWriter::AddBlock(BlockKind kind, int row_class, bool hours, uint32_t row_bytes, uint64_t count,
                             const std::vector<StringPiece>& parts) {
  BlockHeader header = {};
  std::memcpy(header.magic, kBlockMagic, sizeof(header.magic));
  header.number = static_cast<uint32_t>(totals_.blocks);
  header.kind = static_cast<uint8_t>(kind);
  header.row_class = static_cast<uint8_t>(row_class);
  header.flags = hours ? kHoursFlag : 0;
  header.row_bytes = row_bytes;
  header.count = count;
  for (const StringPiece& part : parts) {
    header.payload_bytes += part.size();
    header.payload_crc = Extend(header.payload_crc, part.data(), part.size());
  }
  header.crc = HeaderCrc(header_crc_, header);
  TF_RETURN_IF_ERROR(Append(StringPiece(reinterpret_cast<const char*>(&header), sizeof(header))));
  for (const StringPiece& part : parts) TF_RETURN_IF_ERROR(Append(part));
  CountBlock(header, &totals_);
  return OkStatus();
}

Status ShardWriter::AddRows(const RowBlock& block) {
  const size_t n = block.keys.size();
  if (n == 0) return OkStatus();
  if (block.meta.size() != n || block.rows.size() % n != 0) {
    return Internal(path_, ": ", n, " keys with ", block.meta.size(), " counts and ", block.rows.size(), " bytes");
  }
  bool hours = false;
  for (const RowMeta& meta : block.meta) hours |= meta.last_hour != 0;
  column_.resize(n * (hours ? 3 : 2));
  for (size_t i = 0; i < n; ++i) {
    column_[i] = block.meta[i].last_step;
    column_[n + i] = block.meta[i].frequency;
    if (hours) column_[2 * n + i] = block.meta[i].last_hour;
  }
  return AddBlock(BlockKind::kRows, block.row_class, hours, static_cast<uint32_t>(block.rows.size() / n), n,
                  {Bytes(block.keys), Bytes(column_), Bytes(block.rows)});
}

Status ShardWriter::AddRemoved(const std::vector<int64_t>& keys) {
  if (keys.empty()) return OkStatus();
  return AddBlock(BlockKind::kRemoved, 0, false, 0, keys.size(), {Bytes(keys)});
}

Status ShardWriter::AddBloom(const BloomSegment& segment) {
  const uint32_t words[2] = {static_cast<uint32_t>(segment.index), static_cast<uint32_t>(segment.counters.size())};
  bloom_.append(reinterpret_cast<const char*>(words), sizeof(words));
  bloom_.append(reinterpret_cast<const char*>(segment.counters.data()), segment.counters.size());
  ++bloom_count_;
  return bloom_.size() >= static_cast<size_t>(kShardBlockBytes) ? FlushBloom() : OkStatus();
}

Status ShardWriter::FlushBloom() {
  if (bloom_count_ == 0) return OkStatus();
  TF_RETURN_IF_ERROR(AddBlock(BlockKind::kBloom, 0, false, 0, bloom_count_, {StringPiece(bloom_)}));
  bloom_.clear();
  bloom_count_ = 0;
  return OkStatus();
}

Status ShardWriter::Finish(ShardTotals* totals) {
  TF_RETURN_IF_ERROR(FlushBloom());
  const EndPayload end = {totals_.blocks,  totals_.rows, totals_.counted_keys, totals_.removed, totals_.bloom_segments,
                          totals_.digest, 0};
  TF_RETURN_IF_ERROR(AddBlock(BlockKind::kEnd, 0, false, 0, 0,
                              {StringPiece(reinterpret_cast<const char*>(&end), sizeof(end))}));
  TF_RETURN_IF_ERROR(file_->Close());
  if (beside_ != path_) {
    TF_RETURN_IF_ERROR(BringToDisk(beside_, O_RDONLY));
    TF_RETURN_IF_ERROR(env_->RenameFile(beside_, path_));
    file_.reset();
    const std::string folder(tensorflow::io::Dirname(path_));
    TF_RETURN_IF_ERROR(BringToDisk(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY));
  }
  file_.reset();
  *totals = totals_;
  return OkStatus();
}

Status ShardReader::Open(Env* env, const std::string& path, std::unique_ptr<ShardReader>* reader) {
  std::unique_ptr<ShardReader> made(new ShardReader(path));
  tensorflow::uint64 bytes = 0;
  Status status = env->GetFileSize(path, &bytes);
  if (tensorflow::errors::IsNotFound(status)) return tensorflow::errors::NotFound(path, ": missing");
  TF_RETURN_IF_ERROR(status);
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &made->file_));
  made->file_bytes_ = bytes;
  TF_RETURN_IF_ERROR(made->ReadHeader());
  *reader = std::move(made);
  return OkStatus();
}

std::string ShardReader::Where() const {
  return tensorflow::strings::StrCat(path_, ": block ", cursor_.so_far.blocks, " at byte ", cursor_.offset);
}

Status ShardReader::Read(uint64_t offset, uint64_t bytes, char* out, const std::string& what) {
  if (offset > file_bytes_ || bytes > file_bytes_ - offset) {
    return DataLoss(what, ": cut off: expected ", bytes, " bytes from byte ", offset, " on, found a file of ",
                    file_bytes_);
  }
  StringPiece read;
  const Status status = file_->Read(offset, bytes, &read, out);
  if (read.size() != bytes) {
    if (!status.ok() && !tensorflow::errors::IsOutOfRange(status)) return status;
    return DataLoss(what, ": cut off: expected ", bytes, " bytes from byte ", offset, " on, found ", read.size());
  }
  if (read.data() != out) std::memcpy(out, read.data(), bytes);
  return OkStatus();
}

Status ShardReader::ReadHeader() {
  const std::string what = path_ + ": header";
  char fixed[kFileHeaderBytes];
  TF_RETURN_IF_ERROR(Read(0, sizeof(fixed), fixed, what));
  if (std::memcmp(fixed, kMagic, 8) != 0) return DataLoss(what, ": not the header of a table's file");
  uint32_t version, flags, bytes, stored;
  std::memcpy(&version, fixed + 8, 4);
  std::memcpy(&flags, fixed + 12, 4);
  std::memcpy(&bytes, fixed + 16, 4);
  if (bytes > kMostHeaderBytes) return DataLoss(what, ": damaged: announces ", bytes, " bytes of text");
  std::vector<char> rest(bytes + sizeof(stored));
  TF_RETURN_IF_ERROR(Read(sizeof(fixed), rest.size(), rest.data(), what));
  std::memcpy(&stored, rest.data() + bytes, sizeof(stored));
  header_crc_ = Extend(Value(fixed, sizeof(fixed)), rest.data(), bytes);
  if (header_crc_ != stored) {
    return DataLoss(what, ": damaged: expected CRC-32C ", stored, ", found ", header_crc_);
  }
  if (version != kVersion) return DataLoss(what, ": expected format version ", kVersion, ", found ", version);
  header_.assign(rest.data(), bytes);
  is_delta_ = (flags & kDeltaFlag) != 0;
  cursor_.offset = kFileHeaderBytes + bytes + sizeof(stored);
  cursor_.so_far.bytes = cursor_.offset;
  cursor_.so_far.digest = FirstDigest(header_crc_);
  return OkStatus();
}

void ShardReader::Seek(const ShardCursor& cursor) {
  cursor_ = cursor;
  next_header_.clear();
}

Status ShardReader::Next(ShardBlock* block) {
  const std::string where = Where();
  if (next_header_.empty()) {
    next_header_.resize(kBlockHeaderBytes);
    const Status read = Read(cursor_.offset, kBlockHeaderBytes, next_header_.data(), where);
    if (!read.ok()) {
      next_header_.clear();
      return read;
    }
  }
  BlockHeader header;
  std::memcpy(&header, next_header_.data(), kBlockHeaderBytes);
  if (HeaderCrc(header_crc_, header) != header.crc || std::memcmp(header.magic, kBlockMagic, 4) != 0) {
    return DataLoss(where, ": damaged header, or a block of another file: its CRC-32C does not match");
  }
  if (header.number != cursor_.so_far.blocks) {
    return DataLoss(where, ": missing or swapped: found block ", header.number, " in its place");
  }
  const bool is_end = header.kind == static_cast<uint8_t>(BlockKind::kEnd);
  const uint64_t payload_at = cursor_.offset + kBlockHeaderBytes;
  // With the header behind it: one request to an object store for each block.
  const uint64_t behind = is_end ? 0 : kBlockHeaderBytes;
  if (header.payload_bytes > file_bytes_) return DataLoss(where, ": cut off: announces ", header.payload_bytes, " bytes");
  if (buffer_.size() < header.payload_bytes + behind) buffer_.resize(header.payload_bytes + behind);
  TF_RETURN_IF_ERROR(Read(payload_at, header.payload_bytes + behind, buffer_.data(), where));
  const uint32_t crc = Value(buffer_.data(), header.payload_bytes);
  if (crc != header.payload_crc) {
    return DataLoss(where, ": damaged: expected CRC-32C ", header.payload_crc, " of its ", header.payload_bytes,
                    " bytes, found ", crc);
  }
  TF_RETURN_IF_ERROR(Decode(next_header_.data(), buffer_.data(), header.payload_bytes, block));
  if (is_end && payload_at + header.payload_bytes != file_bytes_) {
    return DataLoss(where, ": expected the file to end at byte ", payload_at + header.payload_bytes,
                    ", found a file of ", file_bytes_);
  }
  CountBlock(header, &cursor_.so_far);
  cursor_.offset = payload_at + header.payload_bytes;
  const char* const next = buffer_.data() + header.payload_bytes;
  next_header_.assign(next, next + behind);
  return OkStatus();
}

Status ShardReader::Decode(const char* header_bytes, const char* payload, uint64_t bytes, ShardBlock* block) {
  BlockHeader header;
  std::memcpy(&header, header_bytes, sizeof(header));
  // The checksums are right: whoever wrote this meant something else.
  const auto wrong = [&](const char* what) { return DataLoss(Where(), ": ", what); };
  const uint64_t n = header.count;
  block->kind = static_cast<BlockKind>(header.kind);
  block->rows.clear();
  block->removed.clear();
  block->bloom.clear();
  if (n > bytes) return wrong("announces more entries than it has bytes");
  switch (block->kind) {
    case BlockKind::kRows: {
      const int words = (header.flags & kHoursFlag) ? 3 : 2;
      if (bytes != n * (sizeof(int64_t) + words * sizeof(uint32_t) + header.row_bytes)) {
        return wrong("its length does not fit its rows");
      }
      block->row_bytes = header.row_bytes;
      block->rows.row_class = header.row_class;
      block->rows.keys.resize(n);
      std::memcpy(block->rows.keys.data(), payload, n * sizeof(int64_t));
      block->rows.meta.resize(n);
      const char* const column = payload + n * sizeof(int64_t);
      for (uint64_t i = 0; i < n; ++i) {
        RowMeta& meta = block->rows.meta[i];
        std::memcpy(&meta.last_step, column + i * 4, 4);
        std::memcpy(&meta.frequency, column + (n + i) * 4, 4);
        meta.last_hour = 0;
        if (words == 3) std::memcpy(&meta.last_hour, column + (2 * n + i) * 4, 4);
      }
      const char* const rows = column + n * words * sizeof(uint32_t);
      block->rows.rows.assign(rows, rows + n * header.row_bytes);
      return OkStatus();
    }
    case BlockKind::kRemoved:
      if (bytes != n * sizeof(int64_t)) return wrong("its length does not fit its keys");
      block->removed.resize(n);
      std::memcpy(block->removed.data(), payload, bytes);
      return OkStatus();
    case BlockKind::kBloom: {
      uint64_t at = 0;
      for (uint64_t i = 0; i < n; ++i) {
        uint32_t words[2];
        if (bytes - at < sizeof(words)) return wrong("its length does not fit its segments");
        std::memcpy(words, payload + at, sizeof(words));
        at += sizeof(words);
        if (bytes - at < words[1]) return wrong("its length does not fit its segments");
        BloomSegment segment;
        segment.index = static_cast<int>(words[0]);
        segment.counters.assign(payload + at, payload + at + words[1]);
        at += words[1];
        block->bloom.push_back(std::move(segment));
      }
      return at == bytes ? OkStatus() : wrong("its length does not fit its segments");
    }
    case BlockKind::kEnd: {
      EndPayload end;
      if (bytes != sizeof(end)) return wrong("its length does not fit an end");
      std::memcpy(&end, payload, sizeof(end));
      const ShardTotals& found = cursor_.so_far;
      if (end.blocks != found.blocks || end.rows != found.rows || end.counted_keys != found.counted_keys ||
          end.removed != found.removed || end.bloom_segments != found.bloom_segments || end.digest != found.digest) {
        return wrong("expected the blocks that the end counts, found others");
      }
      return OkStatus();
    }
  }
  return wrong("of an unknown kind");
}

}  // namespace ps_cluster
