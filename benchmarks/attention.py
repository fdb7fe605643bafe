"""Attention against torch: one step of decoding over a paged cache, prompts, their gradients, new keys to
their pages, a state-space step.

    python benchmarks/attention.py [--quick] [--json] [--only TEXT]

Peers get each sequence's keys and values contiguous, gathered outside the timing: ``torch`` is grouped matrix products,
``torch_sdpa`` is scaled_dot_product_attention with enable_gqa. For prompts ``torch`` is scaled_dot_product_attention on
contiguous heads, or matrix products where it has no sinks; for the last two eager operations;
for gradients autograd through it.
"""

from _harness import Comparison, main
from roofcast.kernels.attention.decode.operator import AttentionDecode
from roofcast.kernels.attention.kv_append.operator import KvAppend
from roofcast.kernels.attention.prefill.operator import AttentionPrefill
from roofcast.kernels.attention.prefill_backward.operator import AttentionPrefillBackward
from roofcast.kernels.ssm.mamba2_decode.operator import Mamba2Decode

PEERS: dict[str, float | None] = {"torch": 2.0, "torch_sdpa": 2.0}
DENSE = {"batch": 8, "context": 4096, "q_heads": 32, "kv_heads": 8}
MIXED = {"batch": 12, "context": 32_768, "q_heads": 16, "kv_heads": 4, "lengths": "log_uniform", "shortest": 64}

COMPARISONS = [
    Comparison(AttentionDecode(**DENSE), PEERS, roof_target=0.85),
    Comparison(AttentionDecode(**DENSE, precision="bf16"), PEERS, roof_target=0.75),
    Comparison(AttentionDecode(**MIXED), {"torch": None}, roof_target=0.75),
    Comparison(AttentionDecode(**MIXED, precision="bf16"), {"torch": None}, quick=False),
    Comparison(AttentionDecode(8, 4096), {"torch": 2.0}, quick=False),
    Comparison(AttentionDecode(**DENSE, window=1024), {"torch": 2.0}, quick=False),
    Comparison(AttentionDecode(**DENSE, query_tokens=4), {"torch": None}, quick=False),
    Comparison(AttentionDecode(**DENSE, page_size=256), {"torch": 2.0}, quick=False),
    Comparison(AttentionPrefill(1, 2048, 16, 16), {"torch": 2.0}, roof_target=0.6),
    Comparison(AttentionPrefill(1, 2048, 16, 16, precision="bf16"), {"torch": 2.0}),
    Comparison(AttentionPrefill(1, 512, 32, 4, prefix=3584), {"torch": None}, quick=False),
    Comparison(AttentionPrefill(8, 1024, 32, 4, lengths="lognormal"), {"torch": None}, quick=False),
    Comparison(AttentionPrefill(1, 4096, 32, 4, window=512), {"torch": None}, quick=False),
    Comparison(AttentionPrefill(1, 2048, 64, 8, 64, window=128, sinks=True), {"torch": None}, quick=False),
    Comparison(AttentionPrefillBackward(1, 2048, 16, 16), {"torch": 1.5}, roof_target=0.45),
    Comparison(KvAppend(8, 1024), {"torch": None}),
    Comparison(Mamba2Decode(64), {"torch": None}, roof_target=0.75),
    Comparison(AttentionPrefillBackward(1, 1024, 32, 4, precision="bf16"), {"torch": None}, quick=False),
]

if __name__ == "__main__":
    main(
        "Attention kernels against torch.",
        COMPARISONS,
        ["dram.read", "dram.copy", "dram.write", "vector.fp32", "matrix.bf16", "exp.fp32"],
    )
