"""MoE kernels against torch: routing with its permutation over the routers of real models, the rows to the experts and
back, and the experts' products.

    python benchmarks/moe.py [--quick] [--json] [--only TEXT]

The peer is the user's code in torch: gate, topk, renormalise, stable sort by expert, bincount; index_select; rows
gathered back and multiplied with the weights; a loop over experts.
"""

from _harness import Comparison, main
from roofcast.kernels.moe.combine.operator import Combine
from roofcast.kernels.moe.dispatch.operator import Dispatch
from roofcast.kernels.moe.expert_gemm.operator import ExpertGemm
from roofcast.kernels.moe.layer.operator import MoeLayer
from roofcast.kernels.moe.routing.operator import Routing

PEER: dict[str, float | None] = {"torch": 5.0}
REPORTED: dict[str, float | None] = {"torch": None}

COMPARISONS = [
    Comparison(Routing(8192, 128, 8), PEER, roof_target=0.5),
    Comparison(Routing(8192, 128, 8, skew="zipf"), PEER, roof_target=0.5, quick=False),
    Comparison(Routing(8192, 128, 8, skew="hot"), PEER, roof_target=0.5, quick=False),
    Comparison(Routing(8192, 128, 8, precision="bf16"), REPORTED, quick=False),
    Comparison(Routing(8192, 128, 8, block=64), REPORTED, quick=False),
    Comparison(Routing(8192, 256, 8, gate="sigmoid", groups=8, groups_kept=4, scale=2.5), PEER),
    Comparison(Routing(8192, 384, 8, gate="sigmoid", scale=2.827), REPORTED, quick=False),
    Comparison(Routing(8192, 512, 22, gate="sigmoid", scale=5.0), REPORTED, quick=False),
    Comparison(Routing(8192, 128, 4, gate="softmax_after_topk"), REPORTED, quick=False),
    *(Comparison(Routing(tokens, 128, 8), REPORTED, quick=tokens == 16) for tokens in (1, 16, 256, 1024)),
    Comparison(Dispatch(), REPORTED, roof_target=0.8),
    Comparison(Dispatch(precision="bf16"), REPORTED, quick=False),
    Comparison(Dispatch(precision="bf16", quantize="fp8"), REPORTED, quick=False),
    Comparison(Combine(), REPORTED, roof_target=0.7),
    Comparison(Combine(precision="bf16"), REPORTED, quick=False),
    Comparison(ExpertGemm(2048), {"torch": 1.8}, roof_target=0.75, quick=False),
    Comparison(ExpertGemm(16, precision="bf16"), REPORTED, roof_target=0.75),
    *(
        Comparison(ExpertGemm(tokens, precision="bf16", skew=skew), REPORTED, quick=False)
        for skew in ("uniform", "zipf", "hot")
        for tokens in (1, 16, 128, 1024, 8192)
        if (tokens, skew) != (16, "uniform")
    ),
    Comparison(MoeLayer(2048), {"torch": 1.5}, quick=False),
    Comparison(MoeLayer(16, precision="bf16"), REPORTED),
    Comparison(MoeLayer(512, precision="bf16"), REPORTED, quick=False),
]

if __name__ == "__main__":
    main(
        "MoE kernels against torch.",
        COMPARISONS,
        ["dram.read", "dram.copy", "dram.write", "llc.read", "vector.fp32", "matrix.bf16", "exp.fp32", "compare.fp32"],
    )
