/*
 * Delassus matrix J M^-1 J', accelerations per unit of constraint force.
 * Robot: chain3, nq = 3, nv = 3, fingerprint dae4e025179df5c4d49ff12aaf13dc4a3d2ebda714d0b6b040910e90b6810422.
 * Constraints: Point('link3', 3 rows).
 * Method: auto, 154 operations.
 * Made by delassus 0.1.0.
 */
#include "chain3_delassus.h"

#include <math.h>

static void chain3_delassus_state(const double *q, double *G)
{
    const double t0 = q[2];
    const double t1 = sin(t0);
    const double t3 = t1 * 0x1.8b96b28121a14p-4;
    const double t4 = q[1];
    const double t5 = sin(t4);
    const double t6 = t5 * t3;
    const double t7 = cos(t0);
    const double t9 = t7 * 0x1.6e14b2fa90f9p-3;
    const double t11 = 0x1.4a55f1b5ba8c8p-1 + t9;
    const double t12 = cos(t4);
    const double t13 = t12 * t11;
    const double t14 = t13 - t6;
    const double t16 = t14 * 0x1.4bf63460c6e41p-3;
    const double t18 = t1 * 0x1.81038b59cbda3p-6;
    const double t19 = t1 * t18;
    const double t20 = 0x1.81038b59cbda3p-6 - t19;
    const double t22 = t20 - 0x1.9270ea1d457f2p-6;
    const double t24 = t22 * 0x1.d18f6ead1b447p-2;
    const double t26 = (-0x1.ad9dfb264baf2p-12) - t24;
    const double t27 = t12 * t26;
    const double t28 = t7 * t18;
    const double t30 = t28 * 0x1.aed548f090ceep-1;
    const double t32 = t1 * 0x1.2c1bc031fce1ep-5;
    const double t33 = t30 + t32;
    const double t34 = t5 * t33;
    const double t35 = t34 + t27;
    const double t36 = 0x1.aed548f090ceep-1 * t35;
    const double t38 = t22 * 0x1.6a88995d4dc81p-1;
    const double t39 = 0x1.9270ea1d457f2p-6 + t38;
    const double t41 = t7 * 0x1.64a5b916292d7p-4;
    const double t42 = t39 + t41;
    const double t44 = 0x1.20b92eacf5dd7p-3 + t42;
    const double t46 = 0x1.14a280fb5068cp-1 * t44;
    const double t47 = t36 + t46;
    const double t48 = t47 + t16;
    const double t49 = t1 * 0x1.6e14b2fa90f9p-3;
    const double t50 = t5 * t49;
    const double t51 = t7 * 0x1.8b96b28121a14p-4;
    const double t52 = t12 * t51;
    const double t53 = t52 - t50;
    const double t54 = 0x1.14a280fb5068cp-1 * t53;
    const double t56 = t7 * 0x1.03364db298ea2p-3;
    const double t57 = t54 + t56;
    const double t59 = 0x1.3333333333333p-2 * t57;
    const double t60 = t7 * 0x1.2c1bc031fce1ep-5;
    const double t62 = 0x1.52a479ecf2376p-6 + t60;
    const double t63 = t12 * t62;
    const double t64 = 0x1.aed548f090ceep-1 * t63;
    const double t66 = t7 * 0x1.8165101bff785p-6;
    const double t68 = 0x1.b2e1329f3d9f3p-7 + t66;
    const double t69 = 0x1.14a280fb5068cp-1 * t68;
    const double t70 = t64 + t69;
    const double t71 = t70 + t59;
    const double t73 = t71 * 0x1.985b19ce72783p+2;
    const double t74 = t68 * 0x1.985b19ce72783p+2;
    const double t75 = t73 * t74;
    const double t76 = t48 - t75;
    const double t77 = t74 * t74;
    const double t78 = t44 - t77;
    const double t79 = sqrt(t78);
    const double t81 = 0x1p+0 / t79;
    const double t82 = t76 * t81;
    const double t83 = t82 * t82;
    const double t84 = t73 * t73;
    const double t85 = t28 * 0x1.14a280fb5068cp-1;
    const double t86 = t1 * 0x1.8165101bff785p-6;
    const double t87 = t85 + t86;
    const double t88 = t87 + t87;
    const double t89 = t12 * t88;
    const double t90 = t20 - t38;
    const double t91 = t90 + t41;
    const double t93 = 0x1.1bf4d2acdf7b9p-3 + t91;
    const double t94 = t93 - t19;
    const double t95 = t5 * t94;
    const double t96 = t95 + t89;
    const double t97 = t5 * t96;
    const double t98 = t93 - t97;
    const double t99 = t98 - t44;
    const double t100 = 0x1.aed548f090ceep-1 * t99;
    const double t102 = t35 * 0x1.14a280fb5068cp+0;
    const double t103 = t100 + t102;
    const double t104 = 0x1.aed548f090ceep-1 * t103;
    const double t105 = t44 + t104;
    const double t107 = t14 * 0x1.3333333333333p-1;
    const double t108 = t105 + t107;
    const double t110 = 0x1.74b9b12d70008p-2 + t108;
    const double t111 = t110 - t84;
    const double t112 = t111 - t83;
    const double t113 = sqrt(t112);
    const double t114 = 0x1p+0 / t113;
    const double t116 = t1 * 0x1.0d8196c6dfc57p-3;
    const double t117 = t81 * t116;
    const double t118 = t82 * t117;
    const double t119 = t1 * 0x1.14a280fb5068cp-1;
    const double t120 = t12 * t119;
    const double t121 = t5 * t7;
    const double t122 = t121 + t120;
    const double t123 = 0x1.14a280fb5068cp-1 * t122;
    const double t124 = t1 * 0x1.6a88995d4dc81p-1;
    const double t125 = t123 + t124;
    const double t126 = 0x1.3333333333333p-2 * t125;
    const double t128 = t1 * 0x1.a3bb25fea45e9p-3;
    const double t129 = t12 * t128;
    const double t130 = 0x1.aed548f090ceep-1 * t129;
    const double t132 = t1 * 0x1.233aca5931338p-4;
    const double t133 = t130 + t132;
    const double t134 = t133 + t126;
    const double t135 = t134 - t118;
    const double t136 = t114 * t135;
    const double t137 = t136 * t136;
    const double t138 = t117 * t117;
    const double t139 = t137 + t138;
    G[0] = t139;
    const double t140 = t7 * 0x1.0d8196c6dfc57p-3;
    const double t141 = t81 * t140;
    const double t142 = t82 * t141;
    const double t143 = t5 * t1;
    const double t144 = t7 * 0x1.14a280fb5068cp-1;
    const double t145 = t12 * t144;
    const double t146 = t145 - t143;
    const double t147 = 0x1.14a280fb5068cp-1 * t146;
    const double t148 = t7 * 0x1.6a88995d4dc81p-1;
    const double t149 = t147 + t148;
    const double t150 = 0x1.3333333333333p-2 * t149;
    const double t151 = t7 * 0x1.a3bb25fea45e9p-3;
    const double t152 = t12 * t151;
    const double t153 = 0x1.aed548f090ceep-1 * t152;
    const double t154 = t7 * 0x1.233aca5931338p-4;
    const double t155 = t153 + t154;
    const double t156 = t155 + t150;
    const double t157 = t156 - t142;
    const double t158 = t114 * t157;
    const double t159 = t136 * t158;
    const double t160 = t117 * t141;
    const double t161 = t159 + t160;
    G[1] = t161;
    G[3] = t161;
    const double t162 = t158 * t158;
    const double t163 = t141 * t141;
    const double t164 = t162 + t163;
    G[4] = t164;
    const double t165 = t81 * 0x1.a3bb25fea45e9p-3;
    const double t166 = t82 * t165;
    const double t167 = t12 * 0x1.d18f6ead1b447p-2;
    const double t169 = (-0x1.d18f6ead1b447p-2) + t167;
    const double t170 = 0x1.3333333333333p-2 * t169;
    const double t172 = t12 * 0x1.c59034de33addp-4;
    const double t174 = 0x1.c59034de33adcp-4 - t172;
    const double t175 = t174 + t170;
    const double t176 = t175 - t166;
    const double t177 = t114 * t176;
    const double t178 = t136 * t177;
    const double t179 = t117 * t165;
    const double t180 = t178 + t179;
    G[2] = t180;
    G[6] = t180;
    const double t181 = t158 * t177;
    const double t182 = t141 * t165;
    const double t183 = t181 + t182;
    G[5] = t183;
    G[7] = t183;
    const double t184 = t177 * t177;
    const double t185 = t165 * t165;
    const double t186 = t184 + t185;
    G[8] = t186;
}

void chain3_delassus(const double *q, double *G)
{
    chain3_delassus_state(q, G);
}

void chain3_delassus_batch(size_t n, const double *q, double *G)
{
    size_t i;

    for (i = 0; i < n; ++i) {
        chain3_delassus_state(q + 3 * i, G + 9 * i);
    }
}
