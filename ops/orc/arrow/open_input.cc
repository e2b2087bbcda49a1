#include "ops/orc/arrow/open_input.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "arrow/filesystem/filesystem.h"
#include "arrow/filesystem/hdfs.h"
#include "arrow/filesystem/s3fs.h"
#include "arrow/io/file.h"
#include "arrow/util/uri.h"

namespace ps_cluster::orc {
namespace {

using FileSystem = std::shared_ptr<arrow::fs::FileSystem>;

// A wrong address fails within seconds.
constexpr double kConnectSeconds = 3.0;
constexpr double kAnswerSeconds = 10.0;
constexpr int64_t kAttempts = 3;

std::string Environment(const char* first, const char* second) {
  for (const char* name : {first, second}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

arrow::Result<FileSystem> OpenS3(const std::string& bucket) {
  ARROW_RETURN_NOT_OK(arrow::fs::EnsureS3Initialized());
  arrow::fs::S3Options options = arrow::fs::S3Options::Defaults();
  options.connect_timeout = kConnectSeconds;
  options.request_timeout = kAnswerSeconds;
  options.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kAttempts);
  options.region = Environment("AWS_REGION", "AWS_DEFAULT_REGION");
  std::string endpoint = Environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  if (!endpoint.empty()) {
    const size_t mark = endpoint.find("://");
    options.scheme = mark == std::string::npos ? "https" : endpoint.substr(0, mark);
    if (mark != std::string::npos) endpoint.erase(0, mark + 3);
    while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
    options.endpoint_override = endpoint;
    if (options.region.empty()) options.region = "us-east-1";  // else Amazon's machines are asked
  } else if (options.region.empty()) {
    ARROW_ASSIGN_OR_RAISE(options.region, arrow::fs::ResolveS3BucketRegion(bucket));
  }
  return arrow::fs::S3FileSystem::Make(options);
}

arrow::Result<FileSystem> OpenHdfs(const std::string& authority) {
  arrow::fs::HdfsOptions options;
  std::string host = authority;
  const size_t at = host.find('@');
  if (at != std::string::npos) {
    options.ConfigureUser(host.substr(0, at));
    host.erase(0, at + 1);
  }
  int port = 0;
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos) {
    port = std::atoi(host.c_str() + colon + 1);
    host.erase(colon);
  }
  options.ConfigureEndPoint(host.empty() ? "default" : host, port);
  return arrow::fs::HadoopFileSystem::Make(options);
}

// File systems are kept: to open one asks a server.
arrow::Result<FileSystem> RemoteFileSystem(bool s3, const std::string& host) {
  static std::mutex mutex;
  static std::map<std::pair<bool, std::string>, FileSystem>* const kept =
      std::make_unique<std::map<std::pair<bool, std::string>, FileSystem>>().release();  // never destroyed
  const std::pair<bool, std::string> key(s3, host);
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = kept->find(key);
  if (found != kept->end()) return found->second;
  ARROW_ASSIGN_OR_RAISE(FileSystem opened, s3 ? OpenS3(host) : OpenHdfs(host));
  (*kept)[key] = opened;
  return opened;
}

}  // namespace

arrow::Result<Input> OpenInput(const std::string& path) {
  const size_t mark = path.find("://");
  std::string scheme = mark == std::string::npos ? "" : path.substr(0, mark);
  const bool is_scheme = !scheme.empty() && std::isalpha(static_cast<unsigned char>(scheme[0])) != 0 &&
                         std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
                         });
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), [](unsigned char c) { return std::tolower(c); });
  Input input;
  if (!is_scheme || scheme == "file") {
    std::string local = path;
    if (is_scheme) {
      const size_t slash = path.find('/', mark + 3);
      if (slash == std::string::npos) return arrow::Status::Invalid("expected file:/// and an absolute path");
      local = arrow::util::UriUnescape(path.substr(slash));
    }
    ARROW_ASSIGN_OR_RAISE(input.file, arrow::io::ReadableFile::Open(local));
    return input;
  }
  const bool s3 = scheme == "s3" || scheme == "s3a";
  if (!s3 && scheme != "hdfs") return arrow::Status::Invalid("expected a local path, s3:// or hdfs://");
  const std::string rest = path.substr(mark + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  ARROW_ASSIGN_OR_RAISE(FileSystem filesystem, RemoteFileSystem(s3, rest.substr(0, slash)));
  ARROW_ASSIGN_OR_RAISE(input.file, filesystem->OpenInputFile(s3 ? rest : rest.substr(slash)));
  input.remote = true;
  return input;
}

}  // namespace ps_cluster::orc
