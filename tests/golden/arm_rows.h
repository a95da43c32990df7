/*
 * Delassus matrix J M^-1 J' of chain3, [Rows('link3', 2 rows), Rows('link1', 1 rows)], by pv-osimr.
 * 176 operations; robot 0ed190a8bc0381c97a756328481da9ba978f34920793a00d2f02f4b987ce4df2
 * delassus VERSION, numpy VERSION
 *
 * Arguments, for one state:
 *   q: float[3], 3; configuration, rad and m
 *   K0: float[12], 2 x 6; rows [linear; angular] on the link's body frame
 * Results, for one state:
 *   G: float[9], 3 x 3; Delassus matrix
 *
 * Arrays are row-major and must not overlap. Nothing is allocated, and nothing is kept between calls.
 */
#ifndef ARM_ROWS_H
#define ARM_ROWS_H

#include <stddef.h>

/* Numbers in each array, for one state. */
#define ARM_ROWS_SIZE_q 3
#define ARM_ROWS_SIZE_K0 12
#define ARM_ROWS_SIZE_G 9

#ifdef __cplusplus
extern "C" {
#endif

/* One state. */
void arm_rows(const float *q, const float *K0, float *G);

/* n states, one after the other in every array. */
void arm_rows_batch(size_t n, const float *q, const float *K0, float *G);

#ifdef __cplusplus
}
#endif

#endif
