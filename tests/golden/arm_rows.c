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
    const float t16 = t7 * t1;
    const float t17 = t16 * 0x1.0d8196p-3f;
    const float t18 = t17 * t15;
    const float t19 = 0x1.b5107cp-3f + t10;
    const float t20 = t16 * 0x1.14a28p-1f - t19 * t18;
    const float t21 = cosf(q[1]);
    const float t22 = t19 * t15;
    const float t23 = 0x1.c09ffep+0f + t6 - t19 * t22;
    const float t24 = sinf(q[1]);
    const float t25 = t23 + t24 * (t24 * (0x1.c09ffep+0f + (0x1.c5d584p+0f - t2) - t17 * t18 - t23) + t21 * (t20 + t20));
    const float t26 = t7 * 0x1.4ce05ap-4f - t4 * 0x1.c59034p-4f;
    const float t27 = t26 * t15;
    const float t28 = 0x1.c5d584p+0f + t5;
    const float t29 = (t24 * (t16 * 0x1.aed548p-1f + t26 * t18) + t21 * (t4 * 0x1.d18f6ep-2f + t26 * t22)) * 0x1.14a28p+0f;
    const float t30 = (t25 - 0x1.aed548p-1f * (0x1.aed548p-1f * (t25 - (0x1.c09ffep+0f + t28 - t26 * t27)) - t29)) * 0x1.333334p-2f;
    const float t31 = t13 * 0x1.d18f6ep-2f + (0x1.f2ce6cp-3f * t26 + t7 * 0x1.444c6cp-6f);
    const float t32 = t7 * t11;
    const float t33 = t32 * 0x1.aed548p-1f + t0 * 0x1.2c1bcp-5f;
    const float t34 = t26 - t31 * t22;
    const float t35 = t24 * (t34 - t33 * t18) + t21 * (t0 * 0x1.340be2p-3f - t33 * t22 + (t16 * 0x1.a3bb26p-3f + t31 * t18));
    const float t36 = t8 + t28 * 0x1.f2ce6cp-3f;
    const float t37 = t21 * ((-0x1.b5107cp-3f) - t36 + t31 * t27) - t24 * (t33 * t27 - t0 * 0x1.8b96b2p-4f);
    const float t38 = 0x1.14a28p-1f * (0x1.aed548p-1f * (t24 * t35 - t34) + 0x1.14a28p-1f * t37) - t37;
    const float t39 = t33 * t15;
    const float t40 = t31 * t39 - (t32 * 0x1.14a28p-1f + t0 * 0x1.81651p-6f);
    const float t41 = t31 * t15;
    const float t42 = 0x1.1edbdp-5f + (t13 - t14 + 0x1.f2ce6cp-3f * (t8 + t36)) - t31 * t41;
    const float t43 = t42 + t24 * (t24 * (0x1.d30c6ap-11f + (0x1.d878b4p-11f + t12) - t33 * t39 - t42) + t21 * (t40 + t40));
    const float t44 = 0x1p+0f / (0x1.74538ep-5f + (0x1.6a889ap-1f * t43 + 0x1.333334p-2f * (t38 + (t38 + t30))));
    const float t45 = K0[3] * t0 + K0[4] * t7;
    const float t46 = K0[1] - K0[5] * 0x1.d1bdcp+2f;
    const float t47 = K0[0] * t0 + t7 * t46;
    const float t48 = 0x1.14a28p-1f * t47 + K0[2] * 0x1.aed548p-1f;
    const float t49 = 0x1.f2ce6cp-3f * t48 - 0x1.aed548p-1f * t45;
    const float t50 = K0[2] * 0x1.14a28p-1f - 0x1.aed548p-1f * t47;
    const float t51 = 0x1.14a28p-1f * (t24 * (K0[0] * t7 - t0 * t46 - t18 * t49) + t21 * (t48 - t22 * t49)) - 0x1.aed548p-1f * (t50 - t27 * t49);
    const float t52 = t24 * (K0[3] * t7 - K0[4] * t0 - t39 * t49) + t21 * (0x1.14a28p-1f * t45 - 0x1.f2ce6cp-3f * t50 + t41 * t49);
    const float t53 = 0x1.aed548p-1f * t52 + 0x1.333334p-2f * t51;
    G[0] = K0[5] * (K0[5] * 0x1.45b142p+5f) + t49 * (t15 * t49) + t53 * (t53 * t44);
    const float t54 = K0[9] * t0 + K0[10] * t7;
    const float t55 = K0[7] - K0[11] * 0x1.d1bdcp+2f;
    const float t56 = K0[6] * t0 + t7 * t55;
    const float t57 = 0x1.14a28p-1f * t56 + K0[8] * 0x1.aed548p-1f;
    const float t58 = 0x1.f2ce6cp-3f * t57 - 0x1.aed548p-1f * t54;
    const float t59 = K0[8] * 0x1.14a28p-1f - 0x1.aed548p-1f * t56;
    const float t60 = 0x1.14a28p-1f * (t24 * (K0[6] * t7 - t0 * t55 - t18 * t58) + t21 * (t57 - t22 * t58)) - 0x1.aed548p-1f * (t59 - t27 * t58);
    const float t61 = t24 * (K0[9] * t7 - K0[10] * t0 - t39 * t58) + t21 * (0x1.14a28p-1f * t54 - 0x1.f2ce6cp-3f * t59 + t41 * t58);
    const float t62 = 0x1.aed548p-1f * t61 + 0x1.333334p-2f * t60;
    const float t63 = t62 * t44;
    const float t64 = t15 * t58;
    const float t65 = K0[11] * 0x1.45b142p+5f;
    G[1] = G[3] = K0[5] * t65 + t49 * t64 + t53 * t63;
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
