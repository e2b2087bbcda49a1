// Ends a test program at the first thing that is not as expected.
#ifndef PS_CLUSTER_TESTS_OPS_TABLE_CHECK_H_
#define PS_CLUSTER_TESTS_OPS_TABLE_CHECK_H_

#include <cstdlib>
#include <iostream>

#define CHECK(condition, ...)                                                                       \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " #condition << " " __VA_ARGS__ << "\n"; \
      std::_Exit(1);                                                                                \
    }                                                                                               \
  } while (0)

#endif  // PS_CLUSTER_TESTS_OPS_TABLE_CHECK_H_
