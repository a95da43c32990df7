/* An arm whose tip is held swings for a second, in steps of 1 ms; prints where it is then. */
#include <stdio.h>

#include "chain7_step.h"

int main(void)
{
    double q[CHAIN7_STEP_SIZE_q], v[CHAIN7_STEP_SIZE_v] = {0}, tau[CHAIN7_STEP_SIZE_tau] = {0};
    double q_next[CHAIN7_STEP_SIZE_q_next], v_next[CHAIN7_STEP_SIZE_v_next];
    const double dt = 1e-3;
    int k, i;

    for (i = 0; i < CHAIN7_STEP_SIZE_q; ++i) q[i] = 0.1 * (i + 1);
    for (k = 0; k < 1000; ++k) {
        chain7_step(q, v, tau, &dt, q_next, v_next);
        for (i = 0; i < CHAIN7_STEP_SIZE_q; ++i) q[i] = q_next[i];
        for (i = 0; i < CHAIN7_STEP_SIZE_v; ++i) v[i] = v_next[i];
    }
    for (i = 0; i < CHAIN7_STEP_SIZE_q; ++i) printf("%.17g\n", q[i]);
    return 0;
}
