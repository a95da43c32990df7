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
    const float t0 = q[2];
    const float t1 = sinf(t0);
    const float t2 = t1 * 0x1.4d017ap+0f;
    const float t3 = t1 * t2;
    const float t4 = 0x1.e3502ap-2f + t3;
    const float t5 = t4 - 0x1.c5d584p+0f;
    const float t6 = t5 * 0x1.6a889ap-1f;
    const float t7 = t4 - t6;
    const float t8 = cosf(t0);
    const float t9 = t8 * 0x1.ab7996p-5f;
    const float t10 = t8 * 0x1.6e14b2p-3f - t9;
    const float t11 = t10 + t7 * 0x1.f2ce6cp-3f;
    const float t12 = t1 * 0x1.81038cp-6f;
    const float t13 = t1 * t12;
    const float t14 = 0x1.8fc75p-6f - t13;
    const float t15 = t14 * 0x1.6a889ap-1f;
    const float t16 = 0x1p+0f / (0x1.202cb4p-5f + (t15 + 0x1.f2ce6cp-3f * (t10 + t11)));
    const float t17 = 0x1.b5107cp-3f + t11;
    const float t18 = t17 * t16;
    const float t19 = K0[4];
    const float t20 = K0[3];
    const float t21 = t20 * t1 + t19 * t8;
    const float t22 = K0[5];
    const float t23 = K0[1] - t22 * 0x1.d1bdcp+2f;
    const float t24 = K0[0];
    const float t25 = t24 * t1 + t8 * t23;
    const float t26 = K0[2];
    const float t27 = 0x1.14a28p-1f * t25 + t26 * 0x1.aed548p-1f;
    const float t28 = 0x1.f2ce6cp-3f * t27 - 0x1.aed548p-1f * t21;
    const float t29 = q[1];
    const float t30 = cosf(t29);
    const float t31 = t8 * t2;
    const float t32 = t31 * 0x1.0d8196p-3f;
    const float t33 = t32 * t16;
    const float t34 = sinf(t29);
    const float t35 = t8 * 0x1.4ce05ap-4f - t5 * 0x1.c59034p-4f;
    const float t36 = t35 * t16;
    const float t37 = t26 * 0x1.14a28p-1f - 0x1.aed548p-1f * t25;
    const float t38 = 0x1.14a28p-1f * (t34 * (t24 * t8 - t1 * t23 - t33 * t28) + t30 * (t27 - t18 * t28)) - 0x1.aed548p-1f * (t37 - t36 * t28);
    const float t39 = t14 * 0x1.d18f6ep-2f + (0x1.f2ce6cp-3f * t35 + t8 * 0x1.444c6cp-6f);
    const float t40 = t39 * t16;
    const float t41 = t8 * t12;
    const float t42 = t41 * 0x1.aed548p-1f + t1 * 0x1.2c1bcp-5f;
    const float t43 = t42 * t16;
    const float t44 = t34 * (t20 * t8 - t19 * t1 - t43 * t28) + t30 * (0x1.14a28p-1f * t21 - 0x1.f2ce6cp-3f * t37 + t40 * t28);
    const float t45 = 0x1.aed548p-1f * t44 + 0x1.333334p-2f * t38;
    const float t46 = t31 * 0x1.14a28p-1f - t17 * t33;
    const float t47 = 0x1.c09ffep+0f + t7 - t17 * t18;
    const float t48 = t47 + t34 * (t34 * (0x1.c09ffep+0f + (0x1.c5d584p+0f - t3) - t32 * t33 - t47) + t30 * (t46 + t46));
    const float t49 = 0x1.c5d584p+0f + t6;
    const float t50 = (t34 * (t31 * 0x1.aed548p-1f + t35 * t33) + t30 * (t5 * 0x1.d18f6ep-2f + t35 * t18)) * 0x1.14a28p+0f;
    const float t51 = (t48 - 0x1.aed548p-1f * (0x1.aed548p-1f * (t48 - (0x1.c09ffep+0f + t49 - t35 * t36)) - t50)) * 0x1.333334p-2f;
    const float t52 = t35 - t39 * t18;
    const float t53 = t34 * (t52 - t42 * t33) + t30 * (t1 * 0x1.340be2p-3f - t42 * t18 + (t31 * 0x1.a3bb26p-3f + t39 * t33));
    const float t54 = t9 + t49 * 0x1.f2ce6cp-3f;
    const float t55 = t30 * ((-0x1.b5107cp-3f) - t54 + t39 * t36) - t34 * (t42 * t36 - t1 * 0x1.8b96b2p-4f);
    const float t56 = 0x1.14a28p-1f * (0x1.aed548p-1f * (t34 * t53 - t52) + 0x1.14a28p-1f * t55) - t55;
    const float t57 = t39 * t43 - (t41 * 0x1.14a28p-1f + t1 * 0x1.81651p-6f);
    const float t58 = 0x1.1edbdp-5f + (t14 - t15 + 0x1.f2ce6cp-3f * (t9 + t54)) - t39 * t40;
    const float t59 = t58 + t34 * (t34 * (0x1.d30c6ap-11f + (0x1.d878b4p-11f + t13) - t42 * t43 - t58) + t30 * (t57 + t57));
    const float t60 = 0x1p+0f / (0x1.74538ep-5f + (0x1.6a889ap-1f * t59 + 0x1.333334p-2f * (t56 + (t56 + t51))));
    G[0] = t22 * (t22 * 0x1.45b142p+5f) + t28 * (t16 * t28) + t45 * (t60 * t45);
    const float t61 = K0[10];
    const float t62 = K0[9];
    const float t63 = t62 * t1 + t61 * t8;
    const float t64 = K0[11];
    const float t65 = K0[7] - t64 * 0x1.d1bdcp+2f;
    const float t66 = K0[6];
    const float t67 = t66 * t1 + t8 * t65;
    const float t68 = K0[8];
    const float t69 = 0x1.14a28p-1f * t67 + t68 * 0x1.aed548p-1f;
    const float t70 = 0x1.f2ce6cp-3f * t69 - 0x1.aed548p-1f * t63;
    const float t71 = t68 * 0x1.14a28p-1f - 0x1.aed548p-1f * t67;
    const float t72 = 0x1.14a28p-1f * (t34 * (t66 * t8 - t1 * t65 - t33 * t70) + t30 * (t69 - t18 * t70)) - 0x1.aed548p-1f * (t71 - t36 * t70);
    const float t73 = t34 * (t62 * t8 - t61 * t1 - t43 * t70) + t30 * (0x1.14a28p-1f * t63 - 0x1.f2ce6cp-3f * t71 + t40 * t70);
    const float t74 = 0x1.aed548p-1f * t73 + 0x1.333334p-2f * t72;
    const float t75 = t60 * t74;
    const float t76 = t16 * t70;
    const float t77 = t64 * 0x1.45b142p+5f;
    G[1] = G[3] = t22 * t77 + t28 * t76 + t45 * t75;
    G[4] = t64 * t77 + t70 * t76 + t74 * t75;
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
