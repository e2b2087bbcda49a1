// The dataset of batches of ORC files; its iterators can be saved.
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/orc/kernels/plan_inputs.h"
#include "ops/orc/reader/batch_stream.h"
#include "ops/orc/reader/gather.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ps_cluster::orc {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataTypeVector;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::data::DatasetBase;
using tensorflow::data::DatasetContext;
using tensorflow::data::IteratorContext;

// Python finds the text of a problem between these.
constexpr char kBefore[] = "samples: ";
constexpr char kBehind[] = " [end of message]";

constexpr char kEpoch[] = "epoch";
constexpr char kRow[] = "row";
constexpr char kBatches[] = "batches";
constexpr char kTold[] = "told";

// What a dataset was made from, also to write it into a graph again.
struct Source {
  std::vector<Tensor> inputs;
  std::vector<std::pair<std::string, AttrValue>> attributes;
  DataTypeVector types;
  std::vector<PartialTensorShape> shapes;
  StreamPosition start;
  int64_t batches = 0;
};

class OrcDataset : public DatasetBase {
 public:
  OrcDataset(OpKernelContext* ctx, Source source, std::shared_ptr<const ReadPlan> plan)
      : DatasetBase(DatasetContext(ctx)), source_(std::move(source)), plan_(std::move(plan)) {}

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::PsClusterOrc"});
  }
  const DataTypeVector& output_dtypes() const override { return source_.types; }
  const std::vector<PartialTensorShape>& output_shapes() const override { return source_.shapes; }
  std::string DebugString() const override { return "PsClusterOrcDatasetOp::Dataset"; }
  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions options) const override { return source_.batches; }
  Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override {
    inputs->clear();
    return tensorflow::OkStatus();
  }
  Status CheckExternalState() const override { return tensorflow::OkStatus(); }

 protected:
  Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* builder,
                            tensorflow::Node** output) const override {
    std::vector<std::pair<size_t, tensorflow::Node*>> inputs;
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      tensorflow::Node* node = nullptr;
      TF_RETURN_IF_ERROR(builder->AddTensor(source_.inputs[i], &node));
      inputs.emplace_back(i, node);
    }
    std::vector<std::pair<tensorflow::StringPiece, AttrValue>> attributes(source_.attributes.begin(),
                                                                          source_.attributes.end());
    return builder->AddDataset(this, inputs, {}, attributes, output);
  }

 private:
  class Iterator : public tensorflow::data::DatasetIterator<OrcDataset> {
   public:
    explicit Iterator(const Params& params)
        : DatasetIterator<OrcDataset>(params), start_(params.dataset->source_.start) {}

    Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out, bool* end_of_sequence) override try {
      tensorflow::mutex_lock lock(mutex_);
      if (stream_ == nullptr) stream_ = std::make_unique<BatchStream>(dataset()->plan_, start_);
      const Cancelled cancelled = [ctx] {
        return ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled();
      };
      Batch batch;
      const Problem problem = stream_->Next(cancelled, &batch, end_of_sequence);
      if (problem) {
        if (cancelled()) return tensorflow::errors::Cancelled("the read was cancelled");
        return tensorflow::errors::DataLoss(kBefore, problem.text(), kBehind);
      }
      if (!*end_of_sequence) Fill(ctx, batch, out);
      return tensorflow::OkStatus();
    } catch (const std::exception& error) {
      return tensorflow::errors::ResourceExhausted("reading ORC files: ", error.what());
    }

   protected:
    std::shared_ptr<tensorflow::data::model::Node> CreateNode(IteratorContext* ctx,
                                                              tensorflow::data::model::Node::Args args) const override {
      return tensorflow::data::model::MakeSourceNode(std::move(args));
    }

    Status SaveInternal(tensorflow::data::SerializationContext* ctx,
                        tensorflow::data::IteratorStateWriter* writer) override {
      tensorflow::mutex_lock lock(mutex_);
      const StreamPosition position = stream_ != nullptr ? stream_->position() : start_;
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kEpoch, position.epoch));
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kRow, position.row));
      TF_RETURN_IF_ERROR(writer->WriteScalar(prefix(), kBatches, position.batches));
      return writer->WriteScalar(prefix(), kTold, static_cast<int64_t>(position.told));
    }

    Status RestoreInternal(IteratorContext* ctx, tensorflow::data::IteratorStateReader* reader) override {
      tensorflow::mutex_lock lock(mutex_);
      stream_ = nullptr;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kEpoch, &start_.epoch));
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kRow, &start_.row));
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kBatches, &start_.batches));
      int64_t told = 0;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kTold, &told));
      start_.told = told != 0;
      return tensorflow::OkStatus();
    }

   private:
    void Fill(IteratorContext* ctx, const Batch& batch, std::vector<Tensor>* out) const {
      const auto make = [&](tensorflow::DataType type, int64_t size) {
        out->emplace_back(ctx->allocator({}), type, TensorShape({size}));
        return &out->back();
      };
      const ReadPlan& plan = *dataset()->plan_;
      for (int64_t c = 0; c < plan.output_columns(); ++c) {
        const bool is_sampled = c >= static_cast<int64_t>(plan.columns.size());
        const DeclaredColumn::Kind kind = is_sampled ? DeclaredColumn::kFloat32 : plan.columns[c].kind;
        if (kind == DeclaredColumn::kInt64) {
          GatherInts(batch, c, make(tensorflow::DT_INT64, batch.rows)->flat<int64_t>().data());
        } else if (kind == DeclaredColumn::kFloat32) {
          GatherFloats(batch, c, make(tensorflow::DT_FLOAT, batch.rows)->flat<float>().data());
        } else {
          Tensor splits(ctx->allocator({}), tensorflow::DT_INT64, TensorShape({batch.rows + 1}));
          const int64_t items = GatherSplits(batch, c, splits.flat<int64_t>().data());
          GatherItems(batch, c, make(tensorflow::DT_INT64, items)->flat<int64_t>().data());
          out->push_back(std::move(splits));
        }
      }
      int64_t* info = make(tensorflow::DT_INT64, batch.info.size())->flat<int64_t>().data();
      std::copy(batch.info.begin(), batch.info.end(), info);
    }

    tensorflow::mutex mutex_;
    StreamPosition start_ TF_GUARDED_BY(mutex_);
    std::unique_ptr<BatchStream> stream_ TF_GUARDED_BY(mutex_);
  };

  const Source source_;
  const std::shared_ptr<const ReadPlan> plan_;
};

class OrcDatasetOp : public tensorflow::data::DatasetOpKernel {
 public:
  explicit OrcDatasetOp(OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadAttributes(ctx, &attributes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes_));
    size_t tensors = 1;
    if (attributes_.sampled) tensors += 2;
    tensors += attributes_.names.size();
    OP_REQUIRES(ctx, types_.size() == shapes_.size() && types_.size() >= tensors,
                tensorflow::errors::InvalidArgument("output_types: expected at least ", tensors));
  }

 protected:
  void MakeDataset(OpKernelContext* ctx, DatasetBase** output) override {
    OpInputList inputs(ctx, 0, ctx->num_inputs());
    auto plan = std::make_shared<ReadPlan>();
    OP_REQUIRES_OK(ctx, MakePlan(inputs, attributes_, plan.get()));
    Source source;
    for (const Tensor& input : inputs) source.inputs.push_back(input);
    for (const auto& [name, value] : def().attr()) {
      // The builder adds the outputs itself; names with an underscore are the runtime's.
      if (name[0] != '_' && name != "output_types" && name != "output_shapes")
        source.attributes.emplace_back(name, value);
    }
    source.types = types_;
    source.shapes = shapes_;
    source.start = attributes_.start;
    source.batches = attributes_.batches;
    *output = std::make_unique<OrcDataset>(ctx, std::move(source), std::move(plan)).release();
  }

 private:
  PlanAttributes attributes_;
  DataTypeVector types_;
  std::vector<PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("PsClusterOrcDataset").Device(tensorflow::DEVICE_CPU), OrcDatasetOp);

}  // namespace
}  // namespace ps_cluster::orc
