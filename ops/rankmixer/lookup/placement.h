// Where the values of an input stand in the matrix of all of them.
#ifndef PS_CLUSTER_OPS_RANKMIXER_LOOKUP_PLACEMENT_H_
#define PS_CLUSTER_OPS_RANKMIXER_LOOKUP_PLACEMENT_H_

#include <cstdint>
#include <cstring>
#include <vector>

namespace ps_cluster {

// `count` values of an input's vector, from `from` on, stand in part `part` from `column` on.
struct Segment {
  int64_t from, count, part, column;
};

// The matrix [parts, batch, width].
struct Matrix {
  float* values;
  int64_t parts, batch, width;

  void Clear(int64_t first_row, int64_t last_row) const {
    for (int64_t part = 0; part < parts; ++part) {
      std::memset(values + (part * batch + first_row) * width, 0, (last_row - first_row) * width * sizeof(float));
    }
  }

  void Put(int64_t row, const float* vector, const std::vector<Segment>& segments) const {
    for (const Segment& s : segments) {
      std::memcpy(values + (s.part * batch + row) * width + s.column, vector + s.from, s.count * sizeof(float));
    }
  }
};

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_RANKMIXER_LOOKUP_PLACEMENT_H_
