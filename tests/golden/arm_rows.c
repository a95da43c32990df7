/*
 * Delassus matrix J M^-1 J' of chain3, [Rows('link3', 2 rows), Rows('link1', 1 rows)], by pv-osimr.
 * 260 operations; robot 0ed190a8bc0381c97a756328481da9ba978f34920793a00d2f02f4b987ce4df2
 * delassus VERSION, numpy VERSION
 */
#include "arm_rows.h"

#include <math.h>

static void arm_rows_state(const float *q, const float *K0, float *G)
{
    G[2] = 0x0p+0f;
    G[5] = 0x0p+0f;
    G[6] = 0x0p+0f;
    G[7] = 0x0p+0f;
    G[8] = 0x0p+0f;
    const float t0 = sinf(q[2]);
    const float t1 = t0 * 0x1.4d017ap+0f;
    const float t2 = t0 * t1;
    const float t3 = 0x1.e3502ap-2f + t2;
    const float t4 = t3 - 0x1.c5d584p+0f;
    const float t5 = t4 * 0x1.6a889ap-1f;
    const float t6 = t3 - t5;
    const float t7 = cosf(q[2]);
    const float t8 = t7 * 0x1.ab7996p-5f;
    const float t9 = t7 * 0x1.6e14b2p-3f - t8;
    const float t10 = t9 + t6 * 0x1.f2ce6cp-3f;
    const float t11 = t0 * 0x1.81038cp-6f;
    const float t12 = t0 * t11;
    const float t13 = 0x1.8fc75p-6f - t12;
    const float t14 = t13 * 0x1.6a889ap-1f;
    const float t15 = 0x1p+0f / (0x1.202cb4p-5f + (t14 + 0x1.f2ce6cp-3f * (t9 + t10)));
    const float t16 = 0x1.b5107cp-3f + t10;
    const float t17 = t16 * t15;
    const float t18 = K0[3] * t0 + K0[4] * t7;
    const float t19 = K0[1] - K0[5] * 0x1.d1bdcp+2f;
    const float t20 = K0[0] * t0 + t7 * t19;
    const float t21 = 0x1.14a28p-1f * t20 + K0[2] * 0x1.aed548p-1f;
    const float t22 = 0x1.f2ce6cp-3f * t21 - 0x1.aed548p-1f * t18;
    const float t23 = cosf(q[1]);
    const float t24 = t7 * t1;
    const float t25 = t24 * 0x1.0d8196p-3f;
    const float t26 = t25 * t15;
    const float t27 = sinf(q[1]);
    const float t28 = t7 * 0x1.4ce05ap-4f - t4 * 0x1.c59034p-4f;
    const float t29 = t28 * t15;
    const float t30 = K0[2] * 0x1.14a28p-1f - 0x1.aed548p-1f * t20;
    const float t31 = 0x1.14a28p-1f * (t27 * (K0[0] * t7 - t0 * t19 - t26 * t22) + t23 * (t21 - t17 * t22)) - 0x1.aed548p-1f * (t30 - t29 * t22);
    const float t32 = t13 * 0x1.d18f6ep-2f + (0x1.f2ce6cp-3f * t28 + t7 * 0x1.444c6cp-6f);
    const float t33 = t32 * t15;
    const float t34 = t7 * t11;
    const float t35 = t34 * 0x1.aed548p-1f + t0 * 0x1.2c1bcp-5f;
    const float t36 = t35 * t15;
    const float t37 = t27 * (K0[3] * t7 - K0[4] * t0 - t36 * t22) + t23 * (0x1.14a28p-1f * t18 - 0x1.f2ce6cp-3f * t30 + t33 * t22);
    const float t38 = 0x1.aed548p-1f * t37 + 0x1.333334p-2f * t31;
    const float t39 = t24 * 0x1.14a28p-1f - t16 * t26;
    const float t40 = 0x1.c09ffep+0f + t6 - t16 * t17;
    const float t41 = t40 + t27 * (t27 * (0x1.c09ffep+0f + (0x1.c5d584p+0f - t2) - t25 * t26 - t40) + t23 * (t39 + t39));
    const float t42 = 0x1.c5d584p+0f + t5;
    const float t43 = (t27 * (t24 * 0x1.aed548p-1f + t28 * t26) + t23 * (t4 * 0x1.d18f6ep-2f + t28 * t17)) * 0x1.14a28p+0f;
    const float t44 = (t41 - 0x1.aed548p-1f * (0x1.aed548p-1f * (t41 - (0x1.c09ffep+0f + t42 - t28 * t29)) - t43)) * 0x1.333334p-2f;
    const float t45 = t28 - t32 * t17;
    const float t46 = t27 * (t45 - t35 * t26) + t23 * (t0 * 0x1.340be2p-3f - t35 * t17 + (t24 * 0x1.a3bb26p-3f + t32 * t26));
    const float t47 = t8 + t42 * 0x1.f2ce6cp-3f;
    const float t48 = t23 * ((-0x1.b5107cp-3f) - t47 + t32 * t29) - t27 * (t35 * t29 - t0 * 0x1.8b96b2p-4f);
    const float t49 = 0x1.14a28p-1f * (0x1.aed548p-1f * (t27 * t46 - t45) + 0x1.14a28p-1f * t48) - t48;
    const float t50 = t32 * t36 - (t34 * 0x1.14a28p-1f + t0 * 0x1.81651p-6f);
    const float t51 = 0x1.1edbdp-5f + (t13 - t14 + 0x1.f2ce6cp-3f * (t8 + t47)) - t32 * t33;
    const float t52 = t51 + t27 * (t27 * (0x1.d30c6ap-11f + (0x1.d878b4p-11f + t12) - t35 * t36 - t51) + t23 * (t50 + t50));
    const float t53 = 0x1p+0f / (0x1.74538ep-5f + (0x1.6a889ap-1f * t52 + 0x1.333334p-2f * (t49 + (t49 + t44))));
    G[0] = K0[5] * (K0[5] * 0x1.45b142p+5f) + t22 * (t15 * t22) + t38 * (t53 * t38);
    const float t54 = K0[9] * t0 + K0[10] * t7;
    const float t55 = K0[7] - K0[11] * 0x1.d1bdcp+2f;
    const float t56 = K0[6] * t0 + t7 * t55;
    const float t57 = 0x1.14a28p-1f * t56 + K0[8] * 0x1.aed548p-1f;
    const float t58 = 0x1.f2ce6cp-3f * t57 - 0x1.aed548p-1f * t54;
    const float t59 = K0[8] * 0x1.14a28p-1f - 0x1.aed548p-1f * t56;
    const float t60 = 0x1.14a28p-1f * (t27 * (K0[6] * t7 - t0 * t55 - t26 * t58) + t23 * (t57 - t17 * t58)) - 0x1.aed548p-1f * (t59 - t29 * t58);
    const float t61 = t27 * (K0[9] * t7 - K0[10] * t0 - t36 * t58) + t23 * (0x1.14a28p-1f * t54 - 0x1.f2ce6cp-3f * t59 + t33 * t58);
    const float t62 = 0x1.aed548p-1f * t61 + 0x1.333334p-2f * t60;
    const float t63 = t53 * t62;
    const float t64 = t15 * t58;
    const float t65 = K0[11] * 0x1.45b142p+5f;
    G[1] = G[3] = K0[5] * t65 + t22 * t64 + t38 * t63;
    G[4] = K0[11] * t65 + t58 * t64 + t62 * t63;
}

void arm_rows(const float *q, const float *K0, float *G)
{
    arm_rows_state(q, K0, G);
}

void arm_rows_batch(size_t n, const float *q, const float *K0, float *G)
{
    size_t i;

    for (i = 0; i < n; ++i) {
        arm_rows_state(q + 3 * i, K0 + 12 * i, G + 9 * i);
    }
}
