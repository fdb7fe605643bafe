"""Carry measured kernel times from one GPU to another, with bands and a backtest on GPUs that were measured.

>>> from roofcast.roofline.transfer import backtest
>>> backtest("h200", "b200").rows[-1]["median_abs_error"]
"""

from __future__ import annotations

from .backtest import Backtest, NothingInCommonError, backtest, noise_floor
from .calibration import Calibration, calibrate
from .predict import Predicted, predict

__all__ = [
    "Backtest",
    "Calibration",
    "NothingInCommonError",
    "Predicted",
    "backtest",
    "calibrate",
    "noise_floor",
    "predict",
]
