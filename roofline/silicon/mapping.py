"""Which table is mapped by what, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .attention import map_decode, map_encoder, map_latent_decode, map_latent_prefill, map_prefill
from .experts import map_collective, map_experts, map_mamba, map_mixer
from .products import map_gemm, map_latent_products, map_scales, map_scaling

if TYPE_CHECKING:
    import pandas as pd

Mapper = Callable[["pd.DataFrame"], "pd.DataFrame"]


@dataclass(frozen=True)
class Mapping:
    """How one kind of table becomes workloads; ``approximation`` is "" where the columns say all."""

    mapper: Mapper
    approximation: str = ""


_MODULE = "a whole module: DeepSeek-V3's projections are counted with the attention, at one rate; its norms are not"

MAPPINGS: dict[str, Mapping] = {
    "gemm": Mapping(map_gemm, "operands in the named format, output taken to be bf16"),
    "context_attention": Mapping(map_prefill),
    "generation_attention": Mapping(map_decode, "equal lengths; the page size is not given"),
    "encoder_attention": Mapping(map_encoder),
    "context_mla": Mapping(map_latent_prefill, "DeepSeek-V3's head sizes"),
    "generation_mla": Mapping(map_latent_decode, "DeepSeek-V3's head sizes, absorbed form"),
    "mla_context_module": Mapping(map_latent_prefill, _MODULE),
    "mla_generation_module": Mapping(map_latent_decode, _MODULE),
    "mla_bmm": Mapping(map_latent_products, "DeepSeek-V3's head sizes"),
    "moe": Mapping(map_experts, "experts read are those that an even choice would reach; expert parallelism 1 only"),
    "gdn": Mapping(map_mixer, "a scan in chunks of 64 tokens is counted, whatever the kernel does"),
    "kda": Mapping(map_mixer, "a scan in chunks of 64 tokens is counted, whatever the kernel does"),
    "mamba2": Mapping(map_mamba, "the convolution only"),
    "scale_matrix": Mapping(map_scaling),
    "computescale": Mapping(map_scales, "in vllm's tables a difference of two kernels, noisy where small"),
    "nccl": Mapping(map_collective, "ring volume"),
}

# Tables without a mapper, by the start of their name.
UNMAPPED: dict[str, str] = {
    "wideep": "expert parallelism over several nodes: the work of one GPU does not follow from the columns",
    "dsa": "sparse attention: how many keys are read is the model's choice and not in the columns",
    "dsv4": "sparse attention: how many keys are read is the model's choice and not in the columns",
    "glm5": "parts of sparse attention: how many keys are read is not in the columns",
    "msa": "sparse attention: how many keys are read is the model's choice and not in the columns",
    "mhc": "hyper-connections: no operator of roofcast does this work",
    "custom_allreduce": "several algorithms under one name; bytes sent do not follow from the columns",
    "moe_a2a": "bytes sent depend on the placement of experts, which is not in the columns",
    "trtllm_alltoall": "bytes sent depend on the placement of experts, which is not in the columns",
}


def reason_unmapped(table: str) -> str:
    """Return why a table has no mapper."""
    return next((why for start, why in UNMAPPED.items() if table.startswith(start)), "no mapper knows its columns")
