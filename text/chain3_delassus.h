/*
 * Delassus matrix J M^-1 J', accelerations per unit of constraint force.
 * Robot: chain3, nq = 3, nv = 3, fingerprint dae4e025179df5c4d49ff12aaf13dc4a3d2ebda714d0b6b040910e90b6810422.
 * Constraints: Point('link3', 3 rows).
 * Method: auto, 154 operations.
 * Made by delassus 0.1.0.
 *
 * Arguments, for one state:
 *   q: double[3], 3; configuration: angles in rad, lengths in m, quaternions x y z w
 * Results, for one state:
 *   G: double[9], 3 x 3; Delassus matrix J M^-1 J', accelerations per unit of constraint force
 *
 * Arrays are row-major and must not overlap. Nothing is allocated, and nothing is kept between calls.
 */
#ifndef CHAIN3_DELASSUS_H
#define CHAIN3_DELASSUS_H

#include <stddef.h>

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
