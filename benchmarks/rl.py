"""The kernels around the policy's update against eager torch: losses, advantages, norms, optimiser, weight cast.

    python benchmarks/rl.py [--quick] [--json] [--only TEXT]

Peers: ``torch`` is what trainers write in eager operations; ``torch_rms_norm`` and ``torch_fused`` are torch's own
fused forms.
"""

from _harness import Comparison, main
from roofcast.kernels.rl.advantages.operator import Advantages
from roofcast.kernels.rl.policy_loss.operator import PolicyLoss
from roofcast.kernels.sync.delta.operator import Delta
from roofcast.kernels.sync.quantize.operator import Quantize
from roofcast.kernels.train.adamw.operator import AdamW
from roofcast.kernels.train.rmsnorm.operator import RmsNorm

TORCH: dict[str, float | None] = {"torch": 2.0}
NORM: dict[str, float | None] = {"torch": 2.0, "torch_rms_norm": None}
OPTIMISER: dict[str, float | None] = {"torch": 2.0, "torch_fused": None}
GSPO = PolicyLoss(512, 8192, "gspo", "sequence", clip_low=3e-4, clip_high=4e-4, drift=0.02)

COMPARISONS = [
    Comparison(PolicyLoss(512, 8192), TORCH, roof_target=0.75),
    Comparison(PolicyLoss(512, 8192, kl=0.001), TORCH, roof_target=0.75),
    Comparison(GSPO, TORCH, roof_target=0.75, quick=False),
    Comparison(RmsNorm(8192, 2048), NORM, roof_target=0.75),
    Comparison(RmsNorm(8192, 2048, direction="backward"), TORCH, roof_target=0.75),
    Comparison(RmsNorm(4096, 2048, "fp32"), NORM, roof_target=0.75, quick=False),
    Comparison(RmsNorm(4096, 2048, "fp32", "backward"), TORCH, roof_target=0.75, quick=False),
    Comparison(AdamW(8_388_608), OPTIMISER, roof_target=0.75),
    Comparison(AdamW(8_388_608, "fp32"), OPTIMISER, roof_target=0.75, quick=False),
    Comparison(Quantize(8192, 2048), TORCH, roof_target=0.75),
    Comparison(Quantize(8192, 2048, "nvfp4", "given"), TORCH, roof_target=0.75),
    # The largest weight must be known first, so that the tensor is read twice: the roof is out of reach by design.
    Comparison(Quantize(8192, 2048, "nvfp4"), TORCH, quick=False),
    Comparison(Delta(16_777_216), {"torch": None}, quick=False),
    Comparison(Advantages(64, 8, "gae", 1024), {"torch": None}, quick=False),
]

if __name__ == "__main__":
    main(
        "Kernels of the policy's update against eager torch.",
        COMPARISONS,
        ["dram.read", "dram.copy", "dram.triad", "llc.read", "vector.fp32", "exp.fp32"],
    )
