// Prints, for every optimiser, a hash of the bits of rows after a few updates.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ops/cc/table/row_optimizer.h"

int main() {
  const std::vector<std::pair<std::string, std::vector<float>>> all = {
      {"sgd", {0.9f}},
      {"momentum", {0.9f, 0.0f, 0.9f}},
      {"momentum", {0.9f, 1.0f, 0.9f}},
      {"adagrad", {0.1f, 1e-7f, 0.7f, 2.0f, 0.9f}},
      {"adam", {0.9f, 0.999f, 1e-7f, 0.9f}},
      {"adamw", {0.9f, 0.999f, 1e-7f, 0.3f, 0.9f}},
      {"rmsprop", {0.9f, 0.0f, 1e-7f, 0.9f}},
      {"rmsprop", {0.9f, 0.8f, 1e-7f, 0.9f}},
      {"ftrl", {-0.5f, 0.1f, 0.01f, 0.2f, 0.3f, 0.4f, 0.9f}},
      {"ftrl", {-0.4f, 0.1f, 0.01f, 0.2f, 0.3f, 0.4f, 0.9f}},
  };
  for (const auto& [name, settings] : all) {
    const auto optimizer = ps_cluster::RowOptimizer::Make(name, settings);
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (int dim = 1; dim <= 70; ++dim) {
      std::vector<float> embedding(dim), gradient(dim), slots(2 * dim);
      for (int j = 0; j < dim; ++j) embedding[j] = std::sin(1.3f * j + dim);
      optimizer.FillSlots(dim, slots.data());
      for (uint32_t step = 1; step <= 9; ++step) {
        for (int j = 0; j < dim; ++j) gradient[j] = 0.3f * std::cos(0.7f * j * step + dim);
        optimizer.Update(optimizer.At(step, 0.05f), gradient.data(), dim, step - 1, embedding.data(), slots.data());
      }
      embedding.insert(embedding.end(), slots.begin(), slots.end());
      for (float value : embedding) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        hash = (hash ^ bits) * 0x100000001b3ULL;
      }
    }
    std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash));
  }
}
