"""Sampling against torch over the vocabularies of real models.

    python benchmarks/sampling.py [--quick] [--json] [--only TEXT]

Peers of the logprob: ``torch`` is log_softmax, gather and -(p log p).sum(), ``torch_logsumexp`` is gather minus
logsumexp. Of top-k and top-p: ``torch`` sorts the vocabulary, ``torch_topk`` takes the top k of it first.
Of the logprob from hidden states: ``torch`` holds all logits.
"""

from _harness import Comparison, main
from roofcast.kernels.sampling.fused_logprob.operator import FusedLogprob
from roofcast.kernels.sampling.logprob.operator import Logprob
from roofcast.kernels.sampling.speculative_verify.operator import SpeculativeVerify
from roofcast.kernels.sampling.top_k_top_p.operator import TopKTopP

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
    Comparison(TopKTopP(64, QWEN3), {"torch": 100.0, "torch_topk": 20.0}, roof_target=0.3),
    Comparison(TopKTopP(64, QWEN3, top_k=0), {"torch": 100.0}),
    Comparison(TopKTopP(64, QWEN3, top_k=0, logits="flat"), {"torch": 100.0}, quick=False),
    Comparison(TopKTopP(64, QWEN3, top_k=0, logits="peaked"), {"torch": 100.0}, quick=False),
    Comparison(TopKTopP(64, QWEN3, presence=1.5, seen=1024), {"torch": None, "torch_topk": None}, quick=False),
    Comparison(SpeculativeVerify(16, 4, 1, QWEN3), {"torch": None}),
    Comparison(SpeculativeVerify(8, 2, 2, QWEN3, acceptance=0.6), {"torch": None}, quick=False),
    Comparison(FusedLogprob(256, 2048, QWEN3), {"torch": 1.0}, quick=False),
    Comparison(FusedLogprob(256, 2048, 32_768, backward=True), {"torch": 1.0}, quick=False),
]

if __name__ == "__main__":
    main(
        "Sampling kernels against torch.",
        COMPARISONS,
        ["dram.read", "llc.read", "vector.fp32", "exp.fp32", "compare.fp32", "matrix.fp32"],
    )
