"""Collectives between processes of this machine: time, algorithm and bus bandwidth over message sizes, and their fit.

    python benchmarks/comm.py [--quick] [--json] [--ranks N]

The peer is a copy of the same message within one process: what the memory allows, where a rank sends through sockets.
Telling the ranks and hearing from them alone is timed too; it is part of every time.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from roofcast.kernels import make_workload
from roofcast.kernels.comm.ranks import ranks_of
from roofcast.profiler.cases import Case
from roofcast.profiler.clock import now_ns
from roofcast.profiler.measuring import measure
from roofcast.profiler.settings import Settings
from roofcast.roofline.links import fit_link

NAMES = ("all_reduce", "all_gather", "all_to_all", "broadcast")
_COLUMNS = "{:14} {:>12} {:>12} {:>12} {:>12} {:>10}"


def _copy_s(nbytes: int) -> float:
    source, target = np.ones(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    times = []
    for _ in range(9):
        start = now_ns()
        target[:] = source
        times.append((now_ns() - start) * 1e-9)
    return float(np.median(times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Collectives over gloo.")
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    powers = range(10, 26, 4) if options.quick else range(8, 28, 2)
    settings = Settings(budget_s=0.5 if options.quick else 2.0, warm_up_s=0.3, energy_s=0.0)
    if not options.json:
        print(_COLUMNS.format("collective", "bytes", "time", "algbw GB/s", "busbw GB/s", "of a copy"))
    failed = False
    for name in NAMES:
        sizes, times = [], []
        for power in powers:
            elements = 2**power // 4 // options.ranks * options.ranks
            workload = make_workload(f"comm.{name}", {"ranks": options.ranks, "elements": elements})
            (row,) = measure([Case(workload.operator, workload, "torch", cache_state="warm")], settings)
            if row.status != "ok" or row.median_s is None:
                failed = True
                print(f"{name} {4 * elements}: {row.status}: {row.message}", file=sys.stderr)
                continue
            nbytes, copy_s = 4 * elements, _copy_s(4 * elements)
            sizes.append(nbytes)
            times.append(row.median_s)
            line = {
                "case": f"comm.{name} ranks={options.ranks}, bytes={nbytes}", "ours_s": row.median_s, "peer": "copy",
                "peer_s": copy_s, "algbw_bytes_per_s": nbytes / row.median_s,
                "busbw_bytes_per_s": row.cost["link_bytes"] / row.median_s, "target": None, "met": None,
            }  # fmt: skip
            if options.json:
                print(json.dumps(line, allow_nan=False), flush=True)
            else:
                bands = (f"{line[k] / 1e9:.3f}" for k in ("algbw_bytes_per_s", "busbw_bytes_per_s"))
                cells = (f"{nbytes:,}", f"{row.median_s * 1e6:.1f} us", *bands, f"{copy_s / row.median_s:.1%}")
                print(_COLUMNS.format(name, *cells), flush=True)
        if len(sizes) < 2:
            continue
        fit = fit_link(sizes, times)
        summary = {
            "case": f"comm.{name} fit", "latency_s": fit.latency_s, "bytes_per_s": fit.bytes_per_s,
            "median_error": fit.median_error, "telling_s": ranks_of(options.ranks).empty_s(),
        }  # fmt: skip
        if options.json:
            print(json.dumps(summary, allow_nan=False), flush=True)
        else:
            print(
                f"{name}: {fit.latency_s * 1e6:.0f} us + bytes / {fit.bytes_per_s / 1e9:.2f} GB/s, median error "
                f"{fit.median_error:.0%}; telling the ranks alone takes {summary['telling_s'] * 1e6:.0f} us"
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
