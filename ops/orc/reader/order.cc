#include "ops/orc/reader/order.h"

#include <algorithm>
#include <array>

namespace ps_cluster::orc {
namespace {

struct Drawn {
  uint64_t value;
  uint32_t number;
};

// Below this many, std::sort is faster.
constexpr int64_t kRadixLeast = 2048;

// Spreads by the upper 11 bits, so that what is left to sort are a few dozen numbers in the cache.
void SortSpread(std::vector<Drawn>* drawn) {
  constexpr int kBits = 11;
  std::array<uint32_t, (1 << kBits) + 1> starts{};
  for (const Drawn& d : *drawn) ++starts[(d.value >> (64 - kBits)) + 1];
  for (size_t b = 1; b < starts.size(); ++b) starts[b] += starts[b - 1];
  std::vector<Drawn> spread(drawn->size());
  auto next = starts;
  for (const Drawn& d : *drawn) spread[next[d.value >> (64 - kBits)]++] = d;
  for (size_t b = 0; b + 1 < starts.size(); ++b) {
    std::sort(spread.begin() + starts[b], spread.begin() + starts[b + 1], [](const Drawn& x, const Drawn& y) {
      return x.value != y.value ? x.value < y.value : x.number < y.number;
    });
  }
  drawn->swap(spread);
}

}  // namespace

std::vector<uint32_t> Permutation(int64_t n, uint64_t key) {
  std::vector<Drawn> drawn(n);
  for (int64_t i = 0; i < n; ++i) {
    drawn[i] = {Mix(key + (static_cast<uint64_t>(i) + 1) * kGolden), static_cast<uint32_t>(i)};
  }
  if (n >= kRadixLeast) {
    SortSpread(&drawn);
  } else {
    std::sort(drawn.begin(), drawn.end(), [](const Drawn& x, const Drawn& y) {
      return x.value != y.value ? x.value < y.value : x.number < y.number;
    });
  }
  std::vector<uint32_t> order(n);
  for (int64_t i = 0; i < n; ++i) order[i] = drawn[i].number;
  return order;
}

EpochOrder::EpochOrder(int64_t parts, bool shuffled, uint64_t seed, uint64_t epoch, int64_t interleave)
    : parts_(parts), group_size_(shuffled ? interleave : 1) {
  if (shuffled) order_ = Permutation(parts, OrderKey(seed, epoch, kPartsStream));
}

int64_t EpochOrder::groups() const { return (parts_ + group_size_ - 1) / group_size_; }

std::vector<int64_t> EpochOrder::Group(int64_t g) const {
  const int64_t first = g * group_size_;
  const int64_t last = std::min(parts_, first + group_size_);
  std::vector<int64_t> group(last - first);
  for (int64_t i = first; i < last; ++i) group[i - first] = order_.empty() ? i : order_[i];
  return group;
}

}  // namespace ps_cluster::orc
