/*
 * Delassus matrix J M^-1 J', accelerations per unit of constraint force.
 * Method: auto, 70 operations.
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

#if defined(FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__) || defined(__AVX2__) || defined(_M_ARM64)
#define DS_HAS_FMA
#endif

/* x y + z, rounded once; twice where processors have no such instruction: last digits are others there. */
static double ds_fma(double x, double y, double z)
{
#ifdef DS_HAS_FMA
    return fma(x, y, z);
#else
    return x * y + z;
#endif
}

typedef union { double number; uint64_t bits; } ds_word;

static uint64_t ds_bits(double x)
{
    ds_word word;

    word.number = x;
    return word.bits;
}

static double ds_number(uint64_t bits)
{
    ds_word word;

    word.bits = bits;
    return word.number;
}

static void ds_sincos(double x, double *sine, double *cosine)
{
#ifdef DS_HAS_FMA
    const double t0 = ds_fma(x, 0x1.45f306dc9c883p-1, 0x1.8p+52);
    const double t1 = t0 - 0x1.8p+52;
    const uint64_t t2 = ds_bits(t0);
    const double t3 = ds_fma(t1, (-0x1.921fb54442d18p+0), x);
    const double t4 = ds_fma(t1, (-0x1.1a62633145c06p-54), t3);
    const double t5 = ds_fma(t1, (-0x1.c1cd129024e08p-107), t4);
    const uint64_t t6 = t2 + UINT64_C(13603122674473631745);
    const int t7 = t6 < UINT64_C(2097155);
    const double t8 = t7 ? t5 : NAN;
    const double t9 = t8 * t8;
    const double t10 = ds_fma(t9, 0x1.5d8b559495e22p-33, (-0x1.ae5e4b83e46f4p-26));
    const double t11 = ds_fma(t9, t10, 0x1.71de35552b52cp-19);
    const double t12 = ds_fma(t9, t11, (-0x1.a01a019be9217p-13));
    const double t13 = ds_fma(t9, t12, 0x1.111111110f73p-7);
    const double t14 = ds_fma(t9, t13, (-0x1.5555555555548p-3));
    const double t15 = ds_fma(t9, t14, 0x0p+0);
    const double t16 = ds_fma(t8, t15, t8);
    const double t17 = ds_fma(t9, 0x1.1b8b07f97aff1p-29, (-0x1.27df44202607dp-22));
    const double t18 = ds_fma(t9, t17, 0x1.a019f817f1fddp-16);
    const double t19 = ds_fma(t9, t18, (-0x1.6c16c164054fbp-10));
    const double t20 = ds_fma(t9, t19, 0x1.555555554f057p-5);
    const double t21 = ds_fma(t9, t20, (-0x1.fffffffffff96p-2));
    const double t22 = ds_fma(t9, t21, 0x1p+0);
    const uint64_t t23 = t2 & UINT64_C(1);
    const int t24 = t23 != UINT64_C(0);
    const double t25 = t24 ? t22 : t16;
    const uint64_t t26 = t2 << UINT64_C(62);
    const uint64_t t27 = t26 & UINT64_C(9223372036854775808);
    const uint64_t t28 = ds_bits(t25);
    const uint64_t t29 = t28 ^ t27;
    const double t30 = ds_number(t29);
    const double t31 = t24 ? t16 : t22;
    const uint64_t t32 = t6 << UINT64_C(62);
    const uint64_t t33 = t32 & UINT64_C(9223372036854775808);
    const uint64_t t34 = ds_bits(t31);
    const uint64_t t35 = t34 ^ t33;
    const double t36 = ds_number(t35);
    
    *sine = t30;
    *cosine = t36;
#else
    const double t0 = ds_fma(x, 0x1.45f306dc9c883p-1, 0x1.8p+52);
    const double t1 = t0 - 0x1.8p+52;
    const uint64_t t2 = ds_bits(t0);
    const double t3 = t1 * 0x1.921fb544p+0;
    const double t4 = t1 * 0x1.0b4611a6p-34;
    const double t5 = t1 * 0x1.3198a2ep-69;
    const double t6 = t1 * 0x1.b839a252049c1p-104;
    const double t7 = x - t3;
    const double t8 = t7 - t4;
    const double t9 = t7 - t8;
    const double t10 = t9 - t4;
    const double t11 = t5 - t10;
    const double t12 = t8 - t11;
    const double t13 = t12 - t6;
    const uint64_t t14 = t2 + UINT64_C(13603122674473631745);
    const int t15 = t14 < UINT64_C(2097155);
    const double t16 = t15 ? t13 : NAN;
    const double t17 = t16 * t16;
    const double t18 = ds_fma(t17, 0x1.5d8b559495e22p-33, (-0x1.ae5e4b83e46f4p-26));
    const double t19 = ds_fma(t17, t18, 0x1.71de35552b52cp-19);
    const double t20 = ds_fma(t17, t19, (-0x1.a01a019be9217p-13));
    const double t21 = ds_fma(t17, t20, 0x1.111111110f73p-7);
    const double t22 = ds_fma(t17, t21, (-0x1.5555555555548p-3));
    const double t23 = ds_fma(t17, t22, 0x0p+0);
    const double t24 = ds_fma(t16, t23, t16);
    const double t25 = ds_fma(t17, 0x1.1b8b07f97aff1p-29, (-0x1.27df44202607dp-22));
    const double t26 = ds_fma(t17, t25, 0x1.a019f817f1fddp-16);
    const double t27 = ds_fma(t17, t26, (-0x1.6c16c164054fbp-10));
    const double t28 = ds_fma(t17, t27, 0x1.555555554f057p-5);
    const double t29 = ds_fma(t17, t28, (-0x1.fffffffffff96p-2));
    const double t30 = ds_fma(t17, t29, 0x1p+0);
    const uint64_t t31 = t2 & UINT64_C(1);
    const int t32 = t31 != UINT64_C(0);
    const double t33 = t32 ? t30 : t24;
    const uint64_t t34 = t2 << UINT64_C(62);
    const uint64_t t35 = t34 & UINT64_C(9223372036854775808);
    const uint64_t t36 = ds_bits(t33);
    const uint64_t t37 = t36 ^ t35;
    const double t38 = ds_number(t37);
    const double t39 = t32 ? t24 : t30;
    const uint64_t t40 = t14 << UINT64_C(62);
    const uint64_t t41 = t40 & UINT64_C(9223372036854775808);
    const uint64_t t42 = ds_bits(t39);
    const uint64_t t43 = t42 ^ t41;
    const double t44 = ds_number(t43);
    
    *sine = t38;
    *cosine = t44;
#endif
}

static void chain3_delassus_state(const double *q, double *G)
{
    double t0, t1;
    ds_sincos(q[2], &t0, &t1);
    const double t2 = t0 * 0x1.81038b59cbda3p-6;
    const double t3 = t1 * t2;
    const double t4 = ds_fma(t3, 0x1.14a280fb5068cp-1, t0 * 0x1.8165101bff785p-6);
    double t5, t6;
    ds_sincos(q[1], &t5, &t6);
    const double t7 = ds_fma(-(t0), t2, 0x1.81038b59cbda3p-6);
    const double t8 = t7 - 0x1.9270ea1d457f2p-6;
    const double t9 = 0x1.1bf4d2acdf7b7p-3 + ds_fma(t1, 0x1.64a5b916292d7p-4, ds_fma(-(t8), 0x1.6a88995d4dc7fp-1, t7));
    const double t10 = 0x1.20b92eacf5dd6p-3 + ds_fma(t1, 0x1.64a5b916292d7p-4, ds_fma(t8, 0x1.6a88995d4dc7fp-1, 0x1.9270ea1d457f2p-6));
    const double t11 = ds_fma(t5, ds_fma(t3, 0x1.aed548f090cedp-1, t0 * 0x1.2c1bc031fce1dp-5), t6 * ds_fma(-(t8), 0x1.d18f6ead1b445p-2, (-0x1.ad9dfb264baf2p-12)));
    const double t12 = ds_fma(0x1.aed548f090cedp-1, ds_fma(-(t5), ds_fma(t5, ds_fma(-(t0), t2, t9), t6 * (t4 + t4)), t9) - t10, t11 * 0x1.14a280fb5068cp+0);
    const double t13 = ds_fma(t6, ds_fma(t1, 0x1.6e14b2fa90f9p-3, 0x1.4a55f1b5ba8c8p-1), -(t5 * (t0 * 0x1.8b96b28121a14p-4)));
    const double t14 = ds_fma(t1, 0x1.8165101bff785p-6, 0x1.b2e1329f3d9f3p-7);
    const double t15 = ds_fma(0x1.aed548f090cedp-1, t6 * ds_fma(t1, 0x1.2c1bc031fce1dp-5, 0x1.52a479ecf2376p-6), 0x1.14a280fb5068cp-1 * t14);
    const double t16 = ds_fma(0x1.14a280fb5068cp-1, ds_fma(t6, t1 * 0x1.8b96b28121a14p-4, -(t5 * (t0 * 0x1.6e14b2fa90f9p-3))), t1 * 0x1.03364db298eap-3);
    const double t17 = ds_fma(0x1.3333333333333p-2, t16, t15) * 0x1.985b19ce72783p+2;
    const double t18 = ds_fma(-(t17), t17, 0x1.74b9b12d70007p-2 + ds_fma(t13, 0x1.3333333333333p-1, ds_fma(0x1.aed548f090cedp-1, t12, t10)));
    const double t19 = t14 * 0x1.985b19ce72783p+2;
    const double t20 = ds_fma(-(t17), t19, ds_fma(t13, 0x1.4bf63460c6e41p-3, ds_fma(0x1.aed548f090cedp-1, t11, 0x1.14a280fb5068cp-1 * t10)));
    const double t21 = 0x1p+0 / sqrt(ds_fma(-(t19), t19, t10));
    const double t22 = t20 * t21;
    const double t23 = t21 * 0x1.a3bb25fea45e8p-3;
    const double t24 = ds_fma(0x1.3333333333333p-2, ds_fma(t6, 0x1.d18f6ead1b445p-2, (-0x1.d18f6ead1b445p-2)), ds_fma(-(t6), 0x1.c59034de33adcp-4, 0x1.c59034de33adbp-4));
    const double t25 = ds_fma(-(t22), t23, t24) * (0x1p+0 / sqrt(ds_fma(-(t22), t22, t18)));
    G[0] = ds_fma(t25, t25, t23 * t23);
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
