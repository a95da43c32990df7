/*
 * Delassus matrix J M^-1 J' of chain3, [Rows('link3', 2 rows), Rows('link1', 1 rows)], by pv-osimr.
 * 176 operations; robot 0ed190a8bc0381c97a756328481da9ba978f34920793a00d2f02f4b987ce4df2
 * delassus VERSION, numpy VERSION
 */
#include "arm_rows.h"

#include <math.h>

#ifdef __FAST_MATH__
#error "Compile without -ffast-math and -Ofast: NaN, infinities and each rounding count."
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif
#include <stdint.h>

#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__) || defined(__AVX2__) || defined(_M_ARM64)
#define DS_HAS_FMA
#endif

/* x y + z, rounded once; twice where processors have no such instruction: last digits are others there. */
static float ds_fma(float x, float y, float z)
{
#ifdef DS_HAS_FMA
    return fmaf(x, y, z);
#else
    return x * y + z;
#endif
}

static float ds_kept(float x)
{
#if defined(__clang__) || !defined(__GNUC__)
#elif defined(__x86_64__)
    __asm__("" : "+x"(x));
#elif defined(__aarch64__)
    __asm__("" : "+w"(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
}

typedef union { float number; uint32_t bits; } ds_word;

static uint32_t ds_bits(float x)
{
    ds_word word;

    word.number = x;
    return word.bits;
}

static float ds_number(uint32_t bits)
{
    ds_word word;

    word.bits = bits;
    return word.number;
}

static void ds_sincos(float x, float *sine, float *cosine)
{
#ifdef DS_HAS_FMA
    const float t0 = ds_fma(x, 0x1.45f306p-1f, 0x1.8p+23f);
    const float t1 = t0 - 0x1.8p+23f;
    const uint32_t t2 = ds_bits(t0);
    const float t3 = ds_fma(t1, (-0x1.921fb4p+0f), x);
    const float t4 = ds_fma(t1, (-0x1.4442dp-24f), t3);
    const float t5 = ds_fma(t1, (-0x1.846988p-48f), t4);
    const uint32_t t6 = t2 + UINT32_C(3032547329);
    const int t7 = t6 < UINT32_C(131075);
    const float t8 = t7 ? t5 : NAN;
    const float t9 = t8 * t8;
    const float t10 = ds_fma(t9, (-0x1.991c26p-13f), 0x1.1106c6p-7f);
    const float t11 = ds_fma(t9, t10, (-0x1.555544p-3f));
    const float t12 = ds_fma(t9, t11, 0x0p+0f);
    const float t13 = ds_fma(t8, t12, t8);
    const float t14 = ds_fma(t9, 0x1.99e146p-16f, (-0x1.6c0c1ap-10f));
    const float t15 = ds_fma(t9, t14, 0x1.55554ap-5f);
    const float t16 = ds_fma(t9, t15, (-0x1p-1f));
    const float t17 = ds_fma(t9, t16, 0x1p+0f);
    const uint32_t t18 = t2 & UINT32_C(1);
    const int t19 = t18 != UINT32_C(0);
    const float t20 = t19 ? t17 : t13;
    const uint32_t t21 = t2 << UINT32_C(30);
    const uint32_t t22 = t21 & UINT32_C(2147483648);
    const uint32_t t23 = ds_bits(t20);
    const uint32_t t24 = t23 ^ t22;
    const float t25 = ds_number(t24);
    const float t26 = t19 ? t13 : t17;
    const uint32_t t27 = t6 << UINT32_C(30);
    const uint32_t t28 = t27 & UINT32_C(2147483648);
    const uint32_t t29 = ds_bits(t26);
    const uint32_t t30 = t29 ^ t28;
    const float t31 = ds_number(t30);
    
    *sine = t25;
    *cosine = t31;
#else
    const float t0 = ds_fma(x, 0x1.45f306p-1f, 0x1.8p+23f);
    const float t1 = t0 - 0x1.8p+23f;
    const uint32_t t2 = ds_bits(t0);
    const float t3 = t1 * 0x1.9p+0f;
    const float t4 = t1 * 0x1.0cp-7f;
    const float t5 = t1 * 0x1.ecp-14f;
    const float t6 = t1 * 0x1.5p-22f;
    const float t7 = t1 * 0x1.1p-30f;
    const float t8 = t1 * 0x1.68c234p-39f;
    const float t9 = x - t3;
    const float t10 = t9 - t4;
    const float t11 = t10 - t5;
    const float t12 = t11 - t6;
    const float t13 = t11 - t12;
    const float t14 = t13 - t6;
    const float t15 = t7 - t14;
    const float t16 = t12 - t15;
    const float t17 = t16 - t8;
    const uint32_t t18 = t2 + UINT32_C(3032547329);
    const int t19 = t18 < UINT32_C(131075);
    const float t20 = t19 ? t17 : NAN;
    const float t21 = t20 * t20;
    const float t22 = ds_fma(t21, (-0x1.991c26p-13f), 0x1.1106c6p-7f);
    const float t23 = ds_fma(t21, t22, (-0x1.555544p-3f));
    const float t24 = ds_fma(t21, t23, 0x0p+0f);
    const float t25 = ds_fma(t20, t24, t20);
    const float t26 = ds_fma(t21, 0x1.99e146p-16f, (-0x1.6c0c1ap-10f));
    const float t27 = ds_fma(t21, t26, 0x1.55554ap-5f);
    const float t28 = ds_fma(t21, t27, (-0x1p-1f));
    const float t29 = ds_fma(t21, t28, 0x1p+0f);
    const uint32_t t30 = t2 & UINT32_C(1);
    const int t31 = t30 != UINT32_C(0);
    const float t32 = t31 ? t29 : t25;
    const uint32_t t33 = t2 << UINT32_C(30);
    const uint32_t t34 = t33 & UINT32_C(2147483648);
    const uint32_t t35 = ds_bits(t32);
    const uint32_t t36 = t35 ^ t34;
    const float t37 = ds_number(t36);
    const float t38 = t31 ? t25 : t29;
    const uint32_t t39 = t18 << UINT32_C(30);
    const uint32_t t40 = t39 & UINT32_C(2147483648);
    const uint32_t t41 = ds_bits(t38);
    const uint32_t t42 = t41 ^ t40;
    const float t43 = ds_number(t42);
    
    *sine = t37;
    *cosine = t43;
#endif
}

static void arm_rows_state(const float *q, const float *K0, float *G)
{
    G[2] = 0x0p+0f;
    G[5] = 0x0p+0f;
    G[6] = 0x0p+0f;
    G[7] = 0x0p+0f;
    G[8] = 0x0p+0f;
    float t0, t1;
    ds_sincos(q[2], &t0, &t1);
    const float t2 = t0 * 0x1.4d017ap+0f;
    const float t3 = ds_fma(t0, t2, 0x1.e3502ap-2f);
    const float t4 = t3 - 0x1.c5d584p+0f;
    const float t5 = ds_fma(-(t4), 0x1.6a889ap-1f, t3);
    const float t6 = t1 * 0x1.ab7996p-5f;
    const float t7 = ds_fma(t1, 0x1.6e14b2p-3f, -(t6));
    const float t8 = ds_fma(t5, 0x1.f2ce6cp-3f, t7);
    const float t9 = t0 * 0x1.81038cp-6f;
    const float t10 = ds_fma(-(t0), t9, 0x1.8fc75p-6f);
    const float t11 = t10 * 0x1.6a889ap-1f;
    const float t12 = 0x1p+0f / (0x1.202cb4p-5f + ds_fma(0x1.f2ce6cp-3f, t7 + t8, t11));
    const float t13 = t1 * t2;
    const float t14 = t13 * 0x1.0d8196p-3f;
    const float t15 = t14 * t12;
    const float t16 = 0x1.b5107cp-3f + t8;
    const float t17 = ds_fma(t13, 0x1.14a28p-1f, -(t16 * t15));
    float t18, t19;
    ds_sincos(q[1], &t18, &t19);
    const float t20 = t16 * t12;
    const float t21 = ds_fma(-(t16), t20, 0x1.c09ffep+0f + t5);
    const float t22 = ds_fma(t18, ds_fma(-(t14), t15, 0x1.c09ffep+0f + ds_fma(-(t0), t2, 0x1.c5d584p+0f)) - t21, t19 * (t17 + t17));
    const float t23 = ds_fma(t18, t22, t21);
    const float t24 = ds_fma(t1, 0x1.4ce05ap-4f, -(t4 * 0x1.c59034p-4f));
    const float t25 = t24 * t12;
    const float t26 = ds_fma(t4, 0x1.6a889ap-1f, 0x1.c5d584p+0f);
    const float t27 = ds_fma(t18, ds_fma(t13, 0x1.aed548p-1f, t24 * t15), t19 * ds_fma(t4, 0x1.d18f6ep-2f, t24 * t20)) * 0x1.14a28p+0f;
    const float t28 = ds_fma(-(0x1.aed548p-1f), ds_fma(0x1.aed548p-1f, t23 - ds_fma(-(ds_kept(t24)), t25, 0x1.c09ffep+0f + t26), -(t27)), t23);
    const float t29 = ds_fma(t10, 0x1.d18f6ep-2f, ds_fma(0x1.f2ce6cp-3f, t24, t1 * 0x1.444c6cp-6f));
    const float t30 = t1 * t9;
    const float t31 = ds_fma(t30, 0x1.aed548p-1f, t0 * 0x1.2c1bcp-5f);
    const float t32 = ds_fma(-(ds_kept(t29)), t20, t24);
    const float t33 = ds_fma(t18, ds_fma(-(ds_kept(t31)), t15, t32), t19 * (ds_fma(t0, 0x1.340be2p-3f, -(t31 * t20)) + ds_fma(t13, 0x1.a3bb26p-3f, t29 * t15)));
    const float t34 = ds_fma(t26, 0x1.f2ce6cp-3f, t6);
    const float t35 = ds_fma(t19, ds_fma(t29, t25, (-0x1.b5107cp-3f) - t34), -(t18 * ds_fma(t31, t25, -(t0 * 0x1.8b96b2p-4f))));
    const float t36 = ds_fma(0x1.14a28p-1f, ds_fma(0x1.aed548p-1f, ds_fma(t18, t33, -(ds_kept(t32))), 0x1.14a28p-1f * t35), -(ds_kept(t35)));
    const float t37 = t31 * t12;
    const float t38 = ds_fma(t29, t37, -(ds_kept(ds_fma(t30, 0x1.14a28p-1f, t0 * 0x1.81651p-6f))));
    const float t39 = t29 * t12;
    const float t40 = ds_fma(-(ds_kept(t29)), t39, 0x1.1edbdp-5f + ds_fma(0x1.f2ce6cp-3f, t6 + t34, t10 - t11));
    const float t41 = ds_fma(t18, ds_fma(-(ds_kept(t31)), t37, 0x1.d30c6ap-11f + ds_fma(t0, t9, 0x1.d878b4p-11f)) - t40, t19 * (t38 + t38));
    const float t42 = ds_fma(0x1.6a889ap-1f, ds_fma(t18, t41, t40), 0x1.333334p-2f * (t36 + ds_fma(t28, 0x1.333334p-2f, t36)));
    const float t43 = 0x1p+0f / (0x1.74538ep-5f + t42);
    const float t44 = ds_fma(K0[3], t0, K0[4] * t1);
    const float t45 = ds_fma(-(K0[5]), 0x1.d1bdcp+2f, K0[1]);
    const float t46 = ds_fma(K0[0], t0, t1 * t45);
    const float t47 = ds_fma(0x1.14a28p-1f, t46, K0[2] * 0x1.aed548p-1f);
    const float t48 = ds_fma(0x1.f2ce6cp-3f, t47, -(0x1.aed548p-1f * t44));
    const float t49 = ds_fma(K0[2], 0x1.14a28p-1f, -(0x1.aed548p-1f * t46));
    const float t50 = ds_fma(0x1.14a28p-1f, ds_fma(t18, ds_fma(-(t15), t48, ds_fma(K0[0], t1, -(t0 * t45))), t19 * ds_fma(-(t20), t48, t47)), -(0x1.aed548p-1f * ds_fma(-(t25), t48, t49)));
    const float t51 = ds_fma(t18, ds_fma(-(t37), t48, ds_fma(K0[3], t1, -(K0[4] * t0))), t19 * ds_fma(t39, t48, ds_fma(0x1.14a28p-1f, t44, -(0x1.f2ce6cp-3f * t49))));
    const float t52 = ds_fma(0x1.aed548p-1f, t51, 0x1.333334p-2f * t50);
    G[0] = ds_fma(t52, t52 * t43, ds_fma(K0[5], K0[5] * 0x1.45b142p+5f, t48 * (t12 * t48)));
    const float t53 = ds_fma(K0[9], t0, K0[10] * t1);
    const float t54 = ds_fma(-(K0[11]), 0x1.d1bdcp+2f, K0[7]);
    const float t55 = ds_fma(K0[6], t0, t1 * t54);
    const float t56 = ds_fma(0x1.14a28p-1f, t55, K0[8] * 0x1.aed548p-1f);
    const float t57 = ds_fma(0x1.f2ce6cp-3f, t56, -(0x1.aed548p-1f * t53));
    const float t58 = ds_fma(K0[8], 0x1.14a28p-1f, -(0x1.aed548p-1f * t55));
    const float t59 = ds_fma(0x1.14a28p-1f, ds_fma(t18, ds_fma(-(t15), t57, ds_fma(K0[6], t1, -(t0 * t54))), t19 * ds_fma(-(t20), t57, t56)), -(0x1.aed548p-1f * ds_fma(-(t25), t57, t58)));
    const float t60 = ds_fma(t18, ds_fma(-(t37), t57, ds_fma(K0[9], t1, -(K0[10] * t0))), t19 * ds_fma(t39, t57, ds_fma(0x1.14a28p-1f, t53, -(0x1.f2ce6cp-3f * t58))));
    const float t61 = ds_fma(0x1.aed548p-1f, t60, 0x1.333334p-2f * t59);
    const float t62 = t61 * t43;
    const float t63 = t12 * t57;
    const float t64 = K0[11] * 0x1.45b142p+5f;
    G[1] = G[3] = ds_fma(t52, t62, ds_fma(K0[5], t64, t48 * t63));
    G[4] = ds_fma(t61, t62, ds_fma(K0[11], t64, t57 * t63));
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
