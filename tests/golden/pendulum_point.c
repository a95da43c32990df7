/*
 * Delassus matrix J M^-1 J' of chain2, [Point('link2', 3 rows)], by pv-osim.
 * 35 operations; robot cf6634b18593f73bc4855865049f13b19ea217e2c57700035a0b5b35af6244fb
 * delassus VERSION, numpy VERSION
 */
#include "pendulum_point.h"

#include <math.h>

static void pendulum_point_state(const double *q, double *G)
{
    const double t0 = sin(q[1]);
    const double t1 = 0x1.d4bd3d069f208p-2 + t0 * (t0 * 0x1.4b70aee26df08p+0);
    const double t2 = cos(q[1]);
    const double t3 = t2 * 0x1.b5107c869d99ep-3 - t2 * 0x1.fe5ce4bd253e8p-5;
    const double t4 = 0x1.3333333333333p-2 * (t3 + (t3 + (t1 - (t1 - 0x1.c09ffe2415b8ap+0) * 0x1.6a88995d4dc81p-1) * 0x1.3333333333333p-2));
    const double t5 = 0x1.74538ef34d6a1p-5 + ((0x1.1edbd0c5506f2p-5 - t0 * (t0 * 0x1.178f9f1a5567dp-5)) * 0x1.6a88995d4dc81p-1 + t4);
    const double t6 = 0x1p+0 / t5;
    const double t7 = t0 * 0x1.4bf63460c6e41p-3;
    G[0] = t7 * (t7 * t6);
    const double t8 = t2 * 0x1.4bf63460c6e41p-3;
    const double t9 = t8 * t6;
    G[1] = G[3] = t7 * t9;
    G[4] = t8 * t9;
    const double t10 = t6 * 0x1.027ff89056e28p-2;
    G[2] = G[6] = -(t7 * t10);
    G[5] = G[7] = -(t8 * t10);
    G[8] = 0x1.027ff89056e28p-2 * t10;
}

void pendulum_point(const double *q, double *G)
{
    pendulum_point_state(q, G);
}

void pendulum_point_batch(size_t n, const double *q, double *G)
{
    size_t i;

    for (i = 0; i < n; ++i) {
        pendulum_point_state(q + 2 * i, G + 9 * i);
    }
}
