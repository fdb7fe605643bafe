"""Dense matrix products against torch's linear, which calls MKL or oneDNN.

python benchmarks/linear.py [--quick] [--json] [--only TEXT]
"""

from _harness import Comparison, main
from roofcast.kernels.linear.gemm.operator import Gemm

QWEN3, HIDDEN = 151_936, 2048
REPORTED: dict[str, float | None] = {"torch": None}

COMPARISONS = [
    Comparison(Gemm(2040, 2048, 2048), {"torch": 1.5}, roof_target=0.8),
    Comparison(Gemm(2040, 2048, 2048, "bf16"), REPORTED),
    Comparison(Gemm(4, QWEN3, HIDDEN, "bf16"), REPORTED),
    *(Comparison(Gemm(tokens, 5120, HIDDEN, "bf16"), REPORTED, quick=False) for tokens in (1, 16, 64, 512)),
    *(Comparison(Gemm(tokens, 5120, HIDDEN), REPORTED, quick=False) for tokens in (1, 16, 64, 512)),
    Comparison(Gemm(1000, 4096, 14_336), REPORTED, quick=False),
]

if __name__ == "__main__":
    main(
        "Dense matrix products against torch.",
        COMPARISONS,
        ["dram.read", "llc.read", "vector.fp32", "matrix.fp32", "matrix.bf16"],
    )
