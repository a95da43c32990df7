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
    const float t3 = t1 * 0x1.4d017ap+0f;
    const float t4 = t1 * t3;
    const float t6 = 0x1.e3502ap-2f + t4;
    const float t8 = t6 - 0x1.c5d584p+0f;
    const float t10 = t8 * 0x1.6a889ap-1f;
    const float t11 = t6 - t10;
    const float t14 = cosf(t0);
    const float t16 = t14 * 0x1.ab7996p-5f;
    const float t19 = (t14 * 0x1.6e14b2p-3f) - t16;
    const float t20 = t19 + (t11 * 0x1.f2ce6cp-3f);
    const float t24 = t1 * 0x1.81038cp-6f;
    const float t25 = t1 * t24;
    const float t27 = 0x1.8fc75p-6f - t25;
    const float t28 = t27 * 0x1.6a889ap-1f;
    const float t33 = 0x1p+0f / (0x1.202cb4p-5f + (t28 + (0x1.f2ce6cp-3f * (t19 + t20))));
    const float t35 = 0x1.b5107cp-3f + t20;
    const float t36 = t35 * t33;
    const float t37 = K0[4];
    const float t39 = K0[3];
    const float t41 = (t39 * t1) + (t37 * t14);
    const float t45 = K0[5];
    const float t48 = K0[1] - (t45 * 0x1.d1bdcp+2f);
    const float t50 = K0[0];
    const float t52 = (t50 * t1) + (t14 * t48);
    const float t55 = K0[2];
    const float t57 = (0x1.14a28p-1f * t52) + (t55 * 0x1.aed548p-1f);
    const float t59 = (0x1.f2ce6cp-3f * t57) - (0x1.aed548p-1f * t41);
    const float t62 = q[1];
    const float t63 = cosf(t62);
    const float t65 = t14 * t3;
    const float t67 = t65 * 0x1.0d8196p-3f;
    const float t68 = t67 * t33;
    const float t74 = sinf(t62);
    const float t82 = (t14 * 0x1.4ce05ap-4f) - (t8 * 0x1.c59034p-4f);
    const float t83 = t82 * t33;
    const float t87 = (t55 * 0x1.14a28p-1f) - (0x1.aed548p-1f * t52);
    const float t90 = (0x1.14a28p-1f * ((t74 * (((t50 * t14) - (t1 * t48)) - (t68 * t59))) + (t63 * (t57 - (t36 * t59))))) - (0x1.aed548p-1f * (t87 - (t83 * t59)));
    const float t99 = (t27 * 0x1.d18f6ep-2f) + ((0x1.f2ce6cp-3f * t82) + (t14 * 0x1.444c6cp-6f));
    const float t100 = t99 * t33;
    const float t107 = t14 * t24;
    const float t111 = (t107 * 0x1.aed548p-1f) + (t1 * 0x1.2c1bcp-5f);
    const float t112 = t111 * t33;
    const float t119 = (t74 * (((t39 * t14) - (t37 * t1)) - (t112 * t59))) + (t63 * (((0x1.14a28p-1f * t41) - (0x1.f2ce6cp-3f * t87)) + (t100 * t59)));
    const float t121 = (0x1.aed548p-1f * t119) + (0x1.333334p-2f * t90);
    const float t124 = (t65 * 0x1.14a28p-1f) - (t35 * t68);
    const float t130 = (0x1.c09ffep+0f + t11) - (t35 * t36);
    const float t138 = t74 * ((t74 * (((0x1.c09ffep+0f + (0x1.c5d584p+0f - t4)) - (t67 * t68)) - t130)) + (t63 * (t124 + t124)));
    const float t139 = t130 + t138;
    const float t141 = 0x1.c5d584p+0f + t10;
    const float t156 = ((t74 * ((t65 * 0x1.aed548p-1f) + (t82 * t68))) + (t63 * ((t8 * 0x1.d18f6ep-2f) + (t82 * t36)))) * 0x1.14a28p+0f;
    const float t159 = t139 - (0x1.aed548p-1f * ((0x1.aed548p-1f * (t139 - ((0x1.c09ffep+0f + t141) - (t82 * t83)))) - t156));
    const float t172 = t82 - (t99 * t36);
    const float t176 = (t74 * (t172 - (t111 * t68))) + (t63 * (((t1 * 0x1.340be2p-3f) - (t111 * t36)) + ((t65 * 0x1.a3bb26p-3f) + (t99 * t68))));
    const float t182 = t16 + (t141 * 0x1.f2ce6cp-3f);
    const float t192 = (t63 * (((-0x1.b5107cp-3f) - t182) + (t99 * t83))) - (t74 * ((t111 * t83) - (t1 * 0x1.8b96b2p-4f)));
    const float t196 = (0x1.14a28p-1f * ((0x1.aed548p-1f * ((t74 * t176) - t172)) + (0x1.14a28p-1f * t192))) - t192;
    const float t205 = (t99 * t112) - ((t107 * 0x1.14a28p-1f) + (t1 * 0x1.81651p-6f));
    const float t215 = (0x1.1edbdp-5f + ((t27 - t28) + (0x1.f2ce6cp-3f * (t16 + t182)))) - (t99 * t100);
    const float t224 = (t74 * (((0x1.d30c6ap-11f + (0x1.d878b4p-11f + t25)) - (t111 * t112)) - t215)) + (t63 * (t205 + t205));
    const float t228 = (0x1.6a889ap-1f * (t215 + (t74 * t224))) + (0x1.333334p-2f * (t196 + (t196 + (t159 * 0x1.333334p-2f))));
    const float t231 = 0x1p+0f / (0x1.74538ep-5f + t228);
    const float t240 = ((t45 * (t45 * 0x1.45b142p+5f)) + (t59 * (t33 * t59))) + (t121 * (t231 * t121));
    G[0] = t240;
    const float t241 = K0[10];
    const float t243 = K0[9];
    const float t245 = (t243 * t1) + (t241 * t14);
    const float t247 = K0[11];
    const float t250 = K0[7] - (t247 * 0x1.d1bdcp+2f);
    const float t252 = K0[6];
    const float t254 = (t252 * t1) + (t14 * t250);
    const float t256 = K0[8];
    const float t258 = (0x1.14a28p-1f * t254) + (t256 * 0x1.aed548p-1f);
    const float t260 = (0x1.f2ce6cp-3f * t258) - (0x1.aed548p-1f * t245);
    const float t271 = 0x1.14a28p-1f * ((t74 * (((t252 * t14) - (t1 * t250)) - (t68 * t260))) + (t63 * (t258 - (t36 * t260))));
    const float t275 = (t256 * 0x1.14a28p-1f) - (0x1.aed548p-1f * t254);
    const float t292 = (t74 * (((t243 * t14) - (t241 * t1)) - (t112 * t260))) + (t63 * (((0x1.14a28p-1f * t245) - (0x1.f2ce6cp-3f * t275)) + (t100 * t260)));
    const float t294 = (0x1.aed548p-1f * t292) + (0x1.333334p-2f * (t271 - (0x1.aed548p-1f * (t275 - (t83 * t260)))));
    const float t295 = t231 * t294;
    const float t297 = t33 * t260;
    const float t299 = t247 * 0x1.45b142p+5f;
    const float t302 = ((t45 * t299) + (t59 * t297)) + (t121 * t295);
    G[1] = t302;
    G[3] = t302;
    const float t307 = ((t247 * t299) + (t260 * t297)) + (t294 * t295);
    G[4] = t307;
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
