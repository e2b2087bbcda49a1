// Decodes rows of a stripe with Arrow's ORC reader, after comparing their bytes with the file's checksums.
#include "ops/orc/reader/stripe_file.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "arrow/adapters/orc/adapter.h"
#include "arrow/api.h"
#include "arrow/util/crc32.h"
#include "ops/orc/arrow/checksums.h"
#include "ops/orc/arrow/open_input.h"
#include "ops/orc/arrow/ranges_file.h"
#include "ops/orc/arrow/raw_column.h"

namespace ps_cluster::orc {
namespace {

using arrow::adapters::orc::ORCFileReader;

// Rows that are decoded at a time where not the whole stripe is.
constexpr int64_t kStepRows = 4096;
// Reading what lies between is cheaper than another read: of a disk, of a server.
constexpr int64_t kLocalGapBytes = 64 << 10;
constexpr int64_t kRemoteGapBytes = 1 << 20;
// Of a remote file without checksums, which tell where columns lie, stripes up to this size are read as a whole.
constexpr int64_t kWholeStripeBytes = 256 << 20;

std::string Hex(uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", crc);
  return text;
}

// What went wrong, on one line.
std::string Words(const arrow::Status& status) {
  return status.detail() == nullptr ? status.message() : status.message() + ": " + status.detail()->ToString();
}

class ArrowStripeFile : public StripeFile {
 public:
  ArrowStripeFile(std::string path, bool verify) : path_(std::move(path)), verify_(verify) {}

  Problem Open() {
    Problem problem;
    const arrow::Status status = Open(&problem);
    if (!status.ok()) {
      return Problem(path_ + ": expected a readable ORC file, found: " + Words(status));
    }
    return problem;
  }

  Problem Decode(const StripeRange& range, const std::vector<std::string>& names,
                 std::vector<RawColumn>* columns) override try {
    Problem problem;
    const arrow::Status status = Decode(range, names, columns, &problem);
    return status.ok() ? problem : Unreadable(range, Words(status));
  } catch (const std::exception& error) {
    return Unreadable(range, error.what());
  }

  void Forget() override {
    loaded_stripe_ = -1;
    file_->Unload();
  }

 private:
  arrow::Status Open(Problem* problem) {
    ARROW_ASSIGN_OR_RAISE(Input input, OpenInput(path_));
    file_ = std::make_shared<RangesFile>(input.file);
    gap_bytes_ = input.remote ? kRemoteGapBytes : kLocalGapBytes;
    remote_ = input.remote;
    ARROW_ASSIGN_OR_RAISE(reader_, ORCFileReader::Open(file_, arrow::default_memory_pool()));
    ARROW_ASSIGN_OR_RAISE(schema_, reader_->ReadSchema());
    return verify_ ? OpenChecksums(problem) : arrow::Status::OK();
  }

  arrow::Status OpenChecksums(Problem* problem) {
    ARROW_ASSIGN_OR_RAISE(auto metadata, reader_->ReadMetadata());
    std::map<std::string, std::string> values;
    for (int64_t i = 0; metadata != nullptr && i < metadata->size(); ++i) values[metadata->key(i)] = metadata->value(i);
    TailLayout layout;
    layout.file_bytes = reader_->GetFileLength();
    layout.footer_end = layout.file_bytes - 1 - reader_->GetFilePostscriptLength();
    layout.start = layout.footer_end - reader_->GetFileFooterLength() - reader_->GetStripeStatisticsLength();
    layout.columns = schema_->num_fields();
    layout.stripes = reader_->NumberOfStripes();
    Problem wrong = ReadChecksums(values, layout, &checksums_);
    if (!wrong && checksums_) {
      ARROW_ASSIGN_OR_RAISE(auto tail, file_->ReadAt(checksums_->tail.start, checksums_->tail.bytes));
      if (arrow::internal::crc32(0, tail->data(), tail->size()) != checksums_->tail_crc) {
        wrong = Problem("stripe statistics and footer: expected CRC " + Hex(checksums_->tail_crc) +
                        ", found another; the file is damaged");
      }
    }
    if (!wrong && !checksums_) {
      ARROW_ASSIGN_OR_RAISE(const bool named, NamesChecksums(layout));
      if (named) {
        wrong = Problem(
            "expected an ORC file, found a truncated or damaged one (it names checksums, but they cannot be read)");
      }
    }
    if (wrong) *problem = Problem(path_ + ": " + wrong.text());
    return arrow::Status::OK();
  }

  // Whether the footer of a file without checksums has their name: a wrong byte beside them must not pass for none.
  // Their block is never compressed.
  arrow::Result<bool> NamesChecksums(const TailLayout& layout) const {
    const int64_t start = layout.start + reader_->GetStripeStatisticsLength();
    ARROW_ASSIGN_OR_RAISE(auto footer, file_->ReadAt(start, layout.footer_end - start));
    const std::string_view bytes(reinterpret_cast<const char*>(footer->data()), footer->size());
    return bytes.find(kChecksumsKey) != std::string_view::npos;
  }

  arrow::Status Decode(const StripeRange& range, const std::vector<std::string>& names, std::vector<RawColumn>* columns,
                       Problem* problem) {
    *problem = CheckLayout(range);
    if (*problem) return arrow::Status::OK();
    std::vector<int> fields;
    for (const std::string& name : names) {
      const int field = schema_->GetFieldIndex(name);
      if (field < 0) {
        *problem = Changed("column " + name + ": expected one column of that name");
        return arrow::Status::OK();
      }
      fields.push_back(field);
    }
    ARROW_RETURN_NOT_OK(LoadAndVerify(range, fields, problem));
    if (*problem) return arrow::Status::OK();
    std::vector<int> ascending(fields);
    std::sort(ascending.begin(), ascending.end());
    ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
    const bool whole = range.start == 0 && range.rows == range.stripe_rows;
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    if (whole) {
      ARROW_ASSIGN_OR_RAISE(auto batch, reader_->ReadStripe(range.stripe, ascending));
      arrays = batch->columns();
    } else {
      ARROW_ASSIGN_OR_RAISE(arrays, DecodeRows(range, ascending));
    }
    columns->clear();
    for (const int field : fields) {
      const size_t place = std::lower_bound(ascending.begin(), ascending.end(), field) - ascending.begin();
      if (place >= arrays.size() || arrays[place]->length() != range.rows) {
        return arrow::Status::Invalid("expected ", range.rows, " rows, found ",
                                      place < arrays.size() ? arrays[place]->length() : 0);
      }
      columns->push_back(ToRawColumn(arrays[place]));
    }
    return arrow::Status::OK();
  }

  Problem CheckLayout(const StripeRange& range) const {
    if (range.stripe >= reader_->NumberOfStripes()) {
      return Changed("expected at least " + std::to_string(range.stripe + 1) + " stripes, found " +
                     std::to_string(reader_->NumberOfStripes()));
    }
    const auto info = reader_->GetStripeInformation(range.stripe);
    if (info.num_rows != range.stripe_rows) {
      return Changed("stripe " + std::to_string(range.stripe) + ": expected " + std::to_string(range.stripe_rows) +
                     " rows, found " + std::to_string(info.num_rows));
    }
    return Problem();
  }

  // Reads the bytes of the columns at once and compares them with their checksums, unless that has been done.
  arrow::Status LoadAndVerify(const StripeRange& range, const std::vector<int>& fields, Problem* problem) {
    if (loaded_stripe_ != range.stripe) loaded_.clear();
    loaded_stripe_ = range.stripe;
    std::set<int64_t> wanted(loaded_);
    wanted.insert(0);
    for (const int field : fields) wanted.insert(1 + field);
    if (wanted == loaded_) return arrow::Status::OK();
    loaded_.clear();
    if (!checksums_) {
      const auto info = reader_->GetStripeInformation(range.stripe);
      if (!remote_ || info.length > kWholeStripeBytes) return arrow::Status::OK();
      return file_->Load({{info.offset, info.length}}, gap_bytes_);
    }
    std::vector<ByteRange> ranges;
    for (const int64_t entry : wanted) {
      const ChecksumEntry& sum = checksums_->Of(range.stripe, entry);
      ranges.insert(ranges.end(), {sum.index, sum.data});
    }
    ARROW_RETURN_NOT_OK(file_->Load(ranges, gap_bytes_));
    for (const int64_t entry : wanted) {
      const ChecksumEntry& sum = checksums_->Of(range.stripe, entry);
      for (const bool index : {true, false}) {
        const ByteRange& part = index ? sum.index : sum.data;
        const uint32_t expected = index ? sum.index_crc : sum.data_crc;
        ARROW_ASSIGN_OR_RAISE(const uint8_t* bytes, file_->Loaded(part));
        const uint32_t crc = part.bytes > 0 ? arrow::internal::crc32(0, bytes, part.bytes) : 0;
        if (crc != expected) {
          *problem = Problem(path_ + ": stripe " + std::to_string(range.stripe) + ": " + Name(entry, index) +
                             ": expected CRC " + Hex(expected) + ", found " + Hex(crc) + "; the file is damaged");
          return arrow::Status::OK();
        }
      }
    }
    loaded_ = std::move(wanted);
    return arrow::Status::OK();
  }

  // Seeks to the first row, so that only the row groups with the rows are decoded.
  arrow::Result<std::vector<std::shared_ptr<arrow::Array>>> DecodeRows(const StripeRange& range,
                                                                       const std::vector<int>& fields) {
    const auto info = reader_->GetStripeInformation(range.stripe);
    ARROW_RETURN_NOT_OK(reader_->Seek(info.first_row_id + range.start));
    ARROW_ASSIGN_OR_RAISE(auto steps, reader_->NextStripeReader(std::min(kStepRows, range.rows), fields));
    std::vector<arrow::ArrayVector> chunks(fields.size());
    int64_t rows = 0;
    while (rows < range.rows) {
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(steps->ReadNext(&batch));
      if (batch == nullptr || batch->num_rows() == 0) break;
      if (batch->num_rows() > range.rows - rows) batch = batch->Slice(0, range.rows - rows);
      rows += batch->num_rows();
      for (size_t c = 0; c < chunks.size(); ++c) chunks[c].push_back(batch->column(static_cast<int>(c)));
    }
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (arrow::ArrayVector& pieces : chunks) {
      if (pieces.empty()) return arrow::Status::Invalid("expected ", range.rows, " rows, found none");
      ARROW_ASSIGN_OR_RAISE(auto joined, pieces.size() == 1 ? pieces[0] : arrow::Concatenate(pieces));
      arrays.push_back(std::move(joined));
    }
    return arrays;
  }

  // What the checksums of an entry are of.
  std::string Name(int64_t entry, bool index) const {
    if (entry == 0) return index ? "index of the rows" : "footer";
    return "column " + schema_->field(static_cast<int>(entry) - 1)->name() + (index ? " (index)" : "");
  }

  Problem Changed(const std::string& what) const {
    return Problem(path_ + ": " + what + "; the file changed after it was checked");
  }

  Problem Unreadable(const StripeRange& range, const std::string& why) const {
    return Problem(path_ + ": stripe " + std::to_string(range.stripe) + " (rows " + std::to_string(range.first_row) +
                   " to " + std::to_string(range.first_row + range.stripe_rows - 1) +
                   ", counted from 0): expected a readable stripe, found: " + why);
  }

  const std::string path_;
  const bool verify_;
  bool remote_ = false;
  int64_t gap_bytes_ = 0;
  std::shared_ptr<RangesFile> file_;
  std::unique_ptr<ORCFileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::optional<Checksums> checksums_;
  int64_t loaded_stripe_ = -1;
  std::set<int64_t> loaded_;  // checksum entries of that stripe whose bytes lie in memory and are right
};

}  // namespace

Problem OpenStripeFile(const std::string& path, bool verify, std::unique_ptr<StripeFile>* file) try {
  auto opened = std::make_unique<ArrowStripeFile>(path, verify);
  Problem problem = opened->Open();
  if (!problem) *file = std::move(opened);
  return problem;
} catch (const std::exception& error) {
  return Problem(path + ": expected a readable ORC file, found: " + error.what());
}

}  // namespace ps_cluster::orc
