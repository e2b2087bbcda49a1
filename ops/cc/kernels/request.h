// The one tensor a worker sends to a PS per step and group of tables.
#ifndef PS_CLUSTER_OPS_KERNELS_REQUEST_H_
#define PS_CLUSTER_OPS_KERNELS_REQUEST_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/cc/table/table.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"

namespace ps_cluster {

// int64 [5 + tables + keys + half the keys, rounded up]:
//   0  rank of the worker
//   1  step, counted from 1
//   2  rows in the worker's batch
//   3  learning rate, the bits of a float32 in the lower half
//   4  event time in hours since 1970; 0: not known
//   5… number of keys of each table, then the keys, table after table, then how often each occurred in the batch, two
//      uint32 in a word. A table's keys are each there once.
constexpr int kHeaderWords = 5;

struct Request {
  int64_t rank = 0;
  int64_t step = 0;
  int64_t batch_rows = 0;
  float learning_rate = 0.0f;
  int64_t hour = 0;
  std::vector<int64_t> first_key;  // [tables + 1] offsets into keys
  const int64_t* keys = nullptr;
  const uint32_t* occurrences = nullptr;

  int64_t num_keys() const { return first_key.back(); }
  Now now() const { return {static_cast<uint32_t>(step), static_cast<uint32_t>(hour)}; }
};

inline int64_t OccurrenceWords(int64_t keys) { return (keys + 1) / 2; }

inline tensorflow::Status ParseRequest(const tensorflow::Tensor& tensor, int num_tables, Request* request) {
  using tensorflow::errors::InvalidArgument;
  if (tensor.dims() != 1 || tensor.dim_size(0) < kHeaderWords + num_tables) {
    return InvalidArgument("request: expected a vector of at least ", kHeaderWords + num_tables,
                           " values, found shape ", tensor.shape().DebugString());
  }
  const int64_t* words = tensor.flat<int64_t>().data();
  request->rank = words[0];
  request->step = words[1];
  request->batch_rows = words[2];
  const uint32_t rate_bits = static_cast<uint32_t>(words[3]);
  std::memcpy(&request->learning_rate, &rate_bits, sizeof(float));
  request->hour = words[4];
  const int64_t last = std::numeric_limits<int32_t>::max();
  if (request->step < 0 || request->step > last) {
    return InvalidArgument("request: expected a step from 0 to 2^31 - 1, found ", request->step);
  }
  if (request->hour < 0 || request->hour > last) {
    return InvalidArgument("request: expected an hour from 0 to 2^31 - 1, found ", request->hour);
  }
  request->first_key.assign(1, 0);
  const int64_t room = tensor.dim_size(0) - kHeaderWords - num_tables;
  for (int t = 0; t < num_tables; ++t) {
    const int64_t count = words[kHeaderWords + t];
    if (count < 0 || count > room - request->first_key.back()) {
      return InvalidArgument("request: table ", t, " announces ", count, " keys, but the tensor holds ", room,
                             " words for keys and their occurrences in all");
    }
    request->first_key.push_back(request->first_key.back() + count);
  }
  const int64_t keys = request->first_key.back();
  if (keys + OccurrenceWords(keys) != room) {
    return InvalidArgument("request: the tables announce ", keys, " keys, which with their occurrences are ",
                           keys + OccurrenceWords(keys), " words, but the tensor holds ", room);
  }
  request->keys = words + kHeaderWords + num_tables;
  request->occurrences = reinterpret_cast<const uint32_t*>(request->keys + keys);
  return tensorflow::OkStatus();
}

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_KERNELS_REQUEST_H_
