/*
 * Delassus matrix J M^-1 J', accelerations per unit of constraint force.
 * Method: auto, 70 operations.
 * Robot: chain3, nq = 3, nv = 3, fingerprint 0ed190a8bc0381c97a756328481da9ba978f34920793a00d2f02f4b987ce4df2.
 * Joints, in the order of q and v:
 *   link1_joint: revolute, q[0], v[0]
 *   link2_joint: revolute, q[1], v[1]
 *   link3_joint: revolute, q[2], v[2]
 * Constraints:
 *   0, row 0: Rows('link3', 1 rows); rows (0, 0, 1, 0, 0, 0)
 * Made by delassus 1.0.0.
 *
 * Arguments, for one state:
 *   q: double[3], 3; configuration: angles in rad, lengths in m, quaternions x y z w
 * Results, for one state:
 *   G: double[1], 1 x 1; Delassus matrix J M^-1 J', accelerations per unit of constraint force
 *
 * Arrays are row-major and must not overlap. Nothing is allocated, and nothing is kept between calls.
 */
#ifndef CHAIN3_DELASSUS_H
#define CHAIN3_DELASSUS_H

#include <stddef.h>

/* Numbers in each array, for one state. */
#define CHAIN3_DELASSUS_SIZE_q 3
#define CHAIN3_DELASSUS_SIZE_G 1

#ifdef __cplusplus
extern "C" {
#endif

/* One state. */
void chain3_delassus(const double *q, double *G);

/* n states, one after the other in every array. */
void chain3_delassus_batch(size_t n, const double *q, double *G);

#ifdef __cplusplus
}
#endif

#endif
