#include "ops/cc/table/bloom.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cc/table/hashing.h"
#include "ops/cc/table/table.h"

namespace ps_cluster {
namespace {

constexpr int kMostHashes = 16;

// Expected share of ids whose counters all belong to other ids too.
double Error(double mean, int hashes, double counters) {
  const double spread = 8 * std::sqrt(mean) + 8;
  const int64_t from = static_cast<int64_t>(std::max(0.0, mean - spread));
  const int64_t to = static_cast<int64_t>(mean + spread);
  double error = 0;
  for (int64_t n = from; n <= to; ++n) {
    const double share = std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0));
    error += share * std::pow(-std::expm1(n * hashes * std::log1p(-1 / counters)), hashes);
  }
  return error;
}

uint32_t Read(const uint8_t* counters, int bytes, uint32_t at) {
  if (bytes == 1) return counters[at];
  uint16_t value;
  std::memcpy(&value, counters + 2 * int64_t{at}, sizeof value);
  return value;
}

void Write(uint8_t* counters, int bytes, uint32_t at, uint32_t value) {
  if (bytes == 1) {
    counters[at] = static_cast<uint8_t>(value);
    return;
  }
  const uint16_t wide = static_cast<uint16_t>(value);
  std::memcpy(counters + 2 * int64_t{at}, &wide, sizeof wide);
}

// Where an id's counters are.
void Positions(const BloomShape& shape, uint64_t routing_hash, uint32_t* positions) {
  const uint64_t mixed = Mix64(routing_hash ^ 0x9ae16a3b2f90404fULL);
  uint32_t at = static_cast<uint32_t>(mixed);
  const uint32_t by = static_cast<uint32_t>(mixed >> 32) | 1;
  for (int i = 0; i < shape.hashes; ++i, at += by) {
    positions[i] = static_cast<uint32_t>(uint64_t{at} * shape.counters >> 32);
  }
}

}  // namespace

BloomShape MakeBloomShape(int64_t capacity, double error, uint32_t threshold) {
  BloomShape shape;
  shape.threshold = threshold;
  shape.counter_bytes = threshold <= 255 ? 1 : 2;
  shape.hashes = std::clamp(static_cast<int>(std::lround(std::log2(1 / error))), 1, kMostHashes);
  const double mean = static_cast<double>(capacity) / kBloomSegments;
  double few = 1, many = 64;
  while (Error(mean, shape.hashes, many) > error) many *= 2;
  while (many - few > 1) {
    const double middle = std::floor((few + many) / 2);
    (Error(mean, shape.hashes, middle) > error ? few : many) = middle;
  }
  shape.counters = (static_cast<uint32_t>(many) + 63) / 64 * 64;  // whole cache lines
  return shape;
}

void BloomCounters::Allocate(const BloomShape& shape) {
  counters_.reset(new uint8_t[shape.segment_bytes()]());
}

uint32_t BloomCounters::Add(const BloomShape& shape, uint64_t routing_hash, uint32_t count) {
  uint32_t positions[kMostHashes] = {};
  Positions(shape, routing_hash, positions);
  uint32_t least = shape.threshold;
  for (int i = 0; i < shape.hashes; ++i) {
    least = std::min(least, Read(counters_.get(), shape.counter_bytes, positions[i]));
  }
  const uint32_t now = count > shape.threshold - least ? shape.threshold : least + count;
  for (int i = 0; i < shape.hashes; ++i) {
    if (Read(counters_.get(), shape.counter_bytes, positions[i]) < now) {
      Write(counters_.get(), shape.counter_bytes, positions[i], now);
    }
  }
  return now;
}

void BloomCounters::Reset(const BloomShape& shape, uint64_t routing_hash) {
  uint32_t positions[kMostHashes] = {};
  Positions(shape, routing_hash, positions);
  uint32_t lowest = positions[0];
  for (int i = 1; i < shape.hashes; ++i) {
    if (Read(counters_.get(), shape.counter_bytes, positions[i]) < Read(counters_.get(), shape.counter_bytes, lowest)) {
      lowest = positions[i];
    }
  }
  Write(counters_.get(), shape.counter_bytes, lowest, 0);
}

void BloomCounters::Merge(const BloomShape& shape, const uint8_t* counters) {
  for (uint32_t i = 0; i < shape.counters; ++i) {
    const uint32_t other = std::min(Read(counters, shape.counter_bytes, i), shape.threshold);
    if (other > Read(counters_.get(), shape.counter_bytes, i)) Write(counters_.get(), shape.counter_bytes, i, other);
  }
}

int64_t BloomBytes(int64_t capacity, double error, uint32_t threshold) {
  return MakeBloomShape(capacity, error, threshold).segment_bytes() * kBloomSegments;
}

}  // namespace ps_cluster
