/*
 * Delassus matrix J M^-1 J' of chain2, [Point('link2', 3 rows)], by pv-osim.
 * 29 operations; robot cf6634b18593f73bc4855865049f13b19ea217e2c57700035a0b5b35af6244fb
 * delassus VERSION, numpy VERSION
 *
 * Arguments, for one state:
 *   q: double[2], 2; configuration, rad and m
 * Results, for one state:
 *   G: double[9], 3 x 3; Delassus matrix
 *
 * Arrays are row-major and must not overlap. Nothing is allocated, and nothing is kept between calls.
 */
#ifndef PENDULUM_POINT_H
#define PENDULUM_POINT_H

#include <stddef.h>

/* Numbers in each array, for one state. */
#define PENDULUM_POINT_SIZE_q 2
#define PENDULUM_POINT_SIZE_G 9

#ifdef __cplusplus
extern "C" {
#endif

/* One state. */
void pendulum_point(const double *q, double *G);

/* n states, one after the other in every array. */
void pendulum_point_batch(size_t n, const double *q, double *G);

#ifdef __cplusplus
}
#endif

#endif
