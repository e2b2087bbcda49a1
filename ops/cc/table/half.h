// Conversion between float32 and the 16-bit value types.
#ifndef PS_CLUSTER_OPS_TABLE_HALF_H_
#define PS_CLUSTER_OPS_TABLE_HALF_H_

#include <cstdint>

namespace ps_cluster {

// To the nearest, ties to even; NaNs stay NaNs. The same bits with and without the processor's own instruction.
void HalfToFloat(const uint16_t* from, int n, float* to);
void FloatToHalf(const float* from, int n, uint16_t* to);
void Bfloat16ToFloat(const uint16_t* from, int n, float* to);
void FloatToBfloat16(const float* from, int n, uint16_t* to);

}  // namespace ps_cluster

#endif  // PS_CLUSTER_OPS_TABLE_HALF_H_
