"""Sampling against torch: logprob and entropy of the chosen token over the vocabularies of real models.

    python benchmarks/sampling.py [--quick] [--json] [--only TEXT]

Peers: ``torch`` is log_softmax, gather and -(p log p).sum(), ``torch_logsumexp`` is gather minus logsumexp.
"""

from _harness import Comparison, main
from roofcast.kernels.sampling.logprob.operator import Logprob

QWEN3, LLAMA4 = 151_936, 202_048
PEERS: dict[str, float | None] = {"torch": 10.0, "torch_logsumexp": None}

COMPARISONS = [
    Comparison(Logprob(64, QWEN3, entropy=False), PEERS, roof_target=0.85),
    Comparison(Logprob(64, QWEN3), PEERS, roof_target=0.85),
    Comparison(Logprob(128, QWEN3, "bf16"), {"torch": 10.0}, quick=False),
    Comparison(Logprob(64, QWEN3, logits="peaked", temperature=0.7), {"torch": 10.0}, roof_target=0.85, quick=False),
    Comparison(Logprob(64, QWEN3, top_n=20), {"torch": 10.0}, quick=False),
    Comparison(Logprob(48, LLAMA4), {"torch": 10.0}, roof_target=0.85, quick=False),
    Comparison(Logprob(1, QWEN3), {"torch": None}),
]

if __name__ == "__main__":
    main("Sampling kernels against torch.", COMPARISONS, ["dram.read", "llc.read", "vector.fp32", "exp.fp32"])
