/*
 * Delassus matrix J M^-1 J' of chain2, [Point('link2', 3 rows)], by pv-osim.
 * 35 operations; robot cf6634b18593f73bc4855865049f13b19ea217e2c57700035a0b5b35af6244fb
 * delassus VERSION, numpy VERSION
 */
#include "pendulum_point.h"

#include <math.h>

static void pendulum_point_state(const double *q, double *G)
{
    const double t0 = q[1];
    const double t1 = sin(t0);
    const double t6 = 0x1.d4bd3d069f208p-2 + (t1 * (t1 * 0x1.4b70aee26df08p+0));
    const double t14 = cos(t0);
    const double t19 = (t14 * 0x1.b5107c869d99ep-3) - (t14 * 0x1.fe5ce4bd253e8p-5);
    const double t22 = 0x1.3333333333333p-2 * (t19 + (t19 + ((t6 - ((t6 - 0x1.c09ffe2415b8ap+0) * 0x1.6a88995d4dc81p-1)) * 0x1.3333333333333p-2)));
    const double t31 = 0x1.74538ef34d6a1p-5 + (((0x1.1edbd0c5506f2p-5 - (t1 * (t1 * 0x1.178f9f1a5567dp-5))) * 0x1.6a88995d4dc81p-1) + t22);
    const double t33 = 0x1p+0 / t31;
    const double t35 = t1 * 0x1.4bf63460c6e41p-3;
    const double t37 = t35 * (t33 * t35);
    G[0] = t37;
    const double t38 = t14 * 0x1.4bf63460c6e41p-3;
    const double t39 = t33 * t38;
    const double t40 = t35 * t39;
    G[1] = t40;
    G[3] = t40;
    const double t41 = t38 * t39;
    G[4] = t41;
    const double t43 = 0x1.027ff89056e28p-2 * t33;
    const double t45 = -(t35 * t43);
    G[2] = t45;
    G[6] = t45;
    const double t47 = -(t38 * t43);
    G[5] = t47;
    G[7] = t47;
    const double t48 = 0x1.027ff89056e28p-2 * t43;
    G[8] = t48;
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
