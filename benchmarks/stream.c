/* The peer of benchmarks/stream.py: what a C compiler makes of the plain loops, with OpenMP over the cores. */

#include <stddef.h>

void fill(double *restrict a, double value, ptrdiff_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (ptrdiff_t i = 0; i < n; i++)
        a[i] = value;
}

void copy(double *restrict c, const double *restrict a, ptrdiff_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (ptrdiff_t i = 0; i < n; i++)
        c[i] = a[i];
}

void triad(double *restrict c, const double *restrict a, const double *restrict b, double scale, ptrdiff_t n,
           int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (ptrdiff_t i = 0; i < n; i++)
        c[i] = a[i] + scale * b[i];
}
