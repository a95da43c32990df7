/*
 * Delassus matrix J M^-1 J', accelerations per unit of constraint force.
 * Method: auto, 101 operations.
 * Robot: chain3, nq = 3, nv = 3, fingerprint 0ed190a8bc0381c97a756328481da9ba978f34920793a00d2f02f4b987ce4df2.
 * Joints, in the order of q and v:
 *   link1_joint: revolute, q[0], v[0]
 *   link2_joint: revolute, q[1], v[1]
 *   link3_joint: revolute, q[2], v[2]
 * Constraints:
 *   0, row 0: Rows('link3', 1 rows); rows (0, 0, 1, 0, 0, 0)
 * Made by delassus 1.0.0.
 */
#include "chain3_delassus.h"

#include <math.h>

static void chain3_delassus_state(const double *q, double *G)
{
    const double t0 = sin(q[2]);
    const double t1 = sin(q[1]);
    const double t2 = cos(q[2]);
    const double t3 = cos(q[1]);
    const double t4 = t3 * (0x1.4a55f1b5ba8c8p-1 + t2 * 0x1.6e14b2fa90f9p-3) - t1 * (t0 * 0x1.8b96b28121a14p-4);
    const double t5 = t0 * 0x1.81038b59cbda3p-6;
    const double t6 = t0 * t5;
    const double t7 = 0x1.81038b59cbda3p-6 - t6;
    const double t8 = t7 - 0x1.9270ea1d457f2p-6;
    const double t9 = t2 * t5;
    const double t10 = t1 * (t9 * 0x1.aed548f090cedp-1 + t0 * 0x1.2c1bc031fce1dp-5) + t3 * ((-0x1.ad9dfb264baf2p-12) - t8 * 0x1.d18f6ead1b445p-2);
    const double t11 = t8 * 0x1.6a88995d4dc7fp-1;
    const double t12 = t2 * 0x1.64a5b916292d7p-4;
    const double t13 = 0x1.20b92eacf5dd6p-3 + (0x1.9270ea1d457f2p-6 + t11 + t12);
    const double t14 = 0x1.14a280fb5068cp-1 * (t3 * (t2 * 0x1.8b96b28121a14p-4) - t1 * (t0 * 0x1.6e14b2fa90f9p-3)) + t2 * 0x1.03364db298eap-3;
    const double t15 = 0x1.b2e1329f3d9f3p-7 + t2 * 0x1.8165101bff785p-6;
    const double t16 = 0x1.aed548f090cedp-1 * (t3 * (0x1.52a479ecf2376p-6 + t2 * 0x1.2c1bc031fce1dp-5)) + 0x1.14a280fb5068cp-1 * t15;
    const double t17 = (t16 + 0x1.3333333333333p-2 * t14) * 0x1.985b19ce72783p+2;
    const double t18 = t15 * 0x1.985b19ce72783p+2;
    const double t19 = 0x1p+0 / sqrt(t13 - t18 * t18);
    const double t20 = (0x1.aed548f090cedp-1 * t10 + 0x1.14a280fb5068cp-1 * t13 + t4 * 0x1.4bf63460c6e41p-3 - t17 * t18) * t19;
    const double t21 = t9 * 0x1.14a280fb5068cp-1 + t0 * 0x1.8165101bff785p-6;
    const double t22 = 0x1.1bf4d2acdf7b7p-3 + (t7 - t11 + t12);
    const double t23 = 0x1.aed548f090cedp-1 * (t22 - t1 * (t1 * (t22 - t6) + t3 * (t21 + t21)) - t13) + t10 * 0x1.14a280fb5068cp+0;
    const double t24 = 0x1.74b9b12d70007p-2 + (t13 + 0x1.aed548f090cedp-1 * t23 + t4 * 0x1.3333333333333p-1) - t17 * t17 - t20 * t20;
    const double t25 = t19 * 0x1.a3bb25fea45e8p-3;
    const double t26 = 0x1.c59034de33adbp-4 - t3 * 0x1.c59034de33adcp-4 + 0x1.3333333333333p-2 * ((-0x1.d18f6ead1b445p-2) + t3 * 0x1.d18f6ead1b445p-2);
    const double t27 = (t26 - t20 * t25) * (0x1p+0 / sqrt(t24));
    G[0] = t27 * t27 + t25 * t25;
}

void chain3_delassus(const double *q, double *G)
{
    chain3_delassus_state(q, G);
}

void chain3_delassus_batch(size_t n, const double *q, double *G)
{
    size_t i;

    for (i = 0; i < n; ++i) {
        chain3_delassus_state(q + 3 * i, G + 1 * i);
    }
}
