// What went wrong, as the text a user reads; no exception leaves the reader.
#ifndef PS_CLUSTER_OPS_ORC_READER_PROBLEM_H_
#define PS_CLUSTER_OPS_ORC_READER_PROBLEM_H_

#include <string>
#include <utility>

namespace ps_cluster::orc {

class [[nodiscard]] Problem {
 public:
  // No problem.
  Problem() = default;
  explicit Problem(std::string text) : text_(std::move(text)) {}

  explicit operator bool() const { return !text_.empty(); }
  // Empty when there is none.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace ps_cluster::orc

#endif  // PS_CLUSTER_OPS_ORC_READER_PROBLEM_H_
