"""Your own implementation of a known operator, here log-probabilities in plain numpy.

roofcast bench --operator sampling.logprob --workload rows=16,vocab=32000 --plugin examples/plugin_implementation.py
"""

import numpy as np
from roofcast.kernels import Arrays, Inputs, Prepared, UnsupportedError, implementation


@implementation("sampling.logprob", backend="user", devices=("cpu",), name="numpy")
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Bind the inputs; what happens here is not timed, so convert and allocate here."""
    workload, logits = inputs.workload.as_dict(), inputs.arrays["logits"]
    if workload["precision"] != "fp32" or workload["top_n"] or workload["rows_per_sequence"] != 1:
        raise UnsupportedError("this example takes fp32 logits, and neither top_n nor rows_per_sequence")
    rows, token, out = np.arange(len(logits)), inputs.arrays["token"], Arrays()

    def run() -> None:
        x = logits / np.float32(workload["temperature"])
        x -= x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        out["logprob"] = x[rows, token]
        if workload["entropy"]:
            out["entropy"] = -(np.exp(x) * x).sum(axis=1)

    return Prepared(run, lambda: out)
