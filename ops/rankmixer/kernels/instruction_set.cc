// For whoever loads the library without TensorFlow's ops: by which instructions the CPU kernels compute.
#include "ops/rankmixer/block/kernels.h"

extern "C" __attribute__((visibility("default"))) const char* ps_cluster_rankmixer_isa() {
  return ps_cluster::rankmixer::ChosenKernels().name;
}
