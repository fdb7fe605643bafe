"""Workloads and helpers that the tests of attention.decode share."""

from typing import Any

import numpy as np
from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.attention.decode.operator import AttentionDecode
from roofcast.kernels.contract import Inputs

OPERATOR = get_operator("attention.decode")
AWKWARD = [
    AttentionDecode(1, 1, 1, 1, 64),
    AttentionDecode(3, 13, 3, 1, 64, page_size=1),
    AttentionDecode(2, 127, 7, 7, 96, page_size=5),
    AttentionDecode(4, 129, 14, 2, 128, page_size=16, lengths="uniform"),
    AttentionDecode(5, 200, 9, 3, 96, page_size=256, lengths="lognormal", sinks=True),
    AttentionDecode(3, 129, 6, 2, 48, page_size=7, window=20),
    AttentionDecode(2, 13, 3, 3, 64, query_tokens=13, window=5),
    AttentionDecode(4, 200, 16, 2, 128, page_size=3, lengths="log_uniform", query_tokens=3, sinks=True, window=33),
    AttentionDecode(2, 70, 4, 1, 256, window=1, query_tokens=2),
]


def run_decode(inputs: Inputs, name: str = "numba") -> dict[str, Any]:
    """Return what an implementation computes on the CPU."""
    prepared = get_implementation("attention.decode", name).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def poison_unused_slots(inputs: Inputs) -> None:
    """Fill every slot of a page that no key of a sequence stands in with NaN."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionDecode)
    nan: Any = 0x7FC0 if w.precision == "bf16" else np.nan
    for table, length in zip(arrays["page_table"], arrays["lengths"], strict=True):
        last, used = divmod(int(length), w.page_size)
        if used:
            arrays["k_pages"][table[last], :, used:] = nan
            arrays["v_pages"][table[last], :, used:] = nan
