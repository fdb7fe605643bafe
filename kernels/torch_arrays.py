"""Hand stored arrays to torch and back. Imported by backend files only, so that it may import torch when called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


def to_tensor(stored: npt.NDArray[Any], device: str, *, copy: bool = False) -> torch.Tensor:
    """Return a stored array as a tensor: uint16 as bf16, all else as it is.

    With ``copy`` the tensor never shares memory with the array.
    """
    import torch

    if stored.dtype == np.uint16:
        tensor = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(stored)
    moved = tensor.to(device)
    return moved.clone() if copy and moved.data_ptr() == tensor.data_ptr() else moved


def to_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a tensor as a numpy array on the host, bf16 as float32."""
    import torch

    host = tensor.detach().cpu()
    return host.float().numpy() if host.dtype == torch.bfloat16 else host.numpy()


def to_stored(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a tensor as the stored array that `to_tensor` takes: bf16 as uint16."""
    import torch

    host = tensor.detach().cpu()
    return host.view(torch.int16).numpy().view(np.uint16) if host.dtype == torch.bfloat16 else host.numpy()


def torch_dtype(precision: str) -> torch.dtype:
    """Return torch's type of a storage precision, ``fp32`` or ``bf16``."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
