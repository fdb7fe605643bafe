"""The ceilings against established measures: bandwidth against C, multiply-adds against what the silicon can do.

``copy`` and ``triad`` go over the same arrays as plain C loops compiled with ``gcc -O3 -march=native -fopenmp``, in
turns. ``vector`` (multiply-adds in registers) is compared with clock x pipes x lanes x 2; the clock is measured by a
chain of additions, the pipes are known for the CPUs of ``roofcast.profiler.microarchitecture``.

    python benchmarks/stream.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from roofcast.profiler.ceilings import cpu_bandwidth, cpu_compute
from roofcast.profiler.ceilings.candidates import sample_best
from roofcast.profiler.ceilings.cpu_clock import measure_clock_hz
from roofcast.profiler.ceilings.working_set import dram_set_bytes
from roofcast.profiler.clock import time_calls
from roofcast.profiler.devices import get_device
from roofcast.profiler.machine import Machine, inspect_machine
from roofcast.profiler.statistics import median
from roofcast.profiler.threads import configure_threads

FLAGS = ("-O3", "-march=native", "-fopenmp")
PEER = f"gcc {' '.join(FLAGS)}"
BANDWIDTH_TARGET = 0.9
FMA_TARGET = 0.9
SCALE = 3.0


def compile_c(folder: Path) -> ctypes.CDLL:
    """Compile the C loops and load them."""
    compiler = shutil.which("gcc")
    if compiler is None:
        sys.exit("error: gcc is not found; install it (on Debian and Ubuntu: apt-get install gcc)")
    source, library = Path(__file__).with_name("stream.c"), folder / "stream.so"
    command = [compiler, *FLAGS, "-shared", "-fPIC", str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {PEER} failed: {done.stderr.strip().splitlines()[-1]}")
    return ctypes.CDLL(str(library))


def in_turns(ours: Callable[[], object], peer: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Time two sides A B A B and return their seconds."""
    ours(), peer()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, run in zip(times, (ours, peer), strict=True):
            side.append(time_calls((run,)))
    return times


def bandwidth_line(access: str, library: ctypes.CDLL, machine: Machine, threads: int, rounds: int) -> dict[str, Any]:
    """Compare one access with C over the same arrays, each side checked first."""
    count = cpu_bandwidth.ARRAYS[access]
    total = dram_set_bytes(machine) * count
    candidates = cpu_bandwidth.bandwidth_candidates(access, total, threads, in_cache=False)
    best = sample_best(candidates, get_device("cpu"), 1.0)
    buffers = cpu_bandwidth.Buffers(access, total, threads)
    buffers.arrays[1][:] = np.random.default_rng(0).standard_normal(buffers.arrays[1].size, dtype=np.float32)
    # The winner again, over arrays that the C code gets too.
    twins = cpu_bandwidth.variants(buffers, in_cache=False)
    ours = next(twin for twin in twins if twin.label == best.winner.label).run
    target, *sources = buffers.arrays
    words = [a.view(np.float64) for a in buffers.arrays]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in buffers.arrays]
    size = ctypes.c_ssize_t(words[0].size)
    scale = [ctypes.c_double(SCALE)] if access == "triad" else []
    function = getattr(library, access)

    def peer() -> None:
        function(*pointers, *scale, size, threads)

    ours()
    want = sources[0] if access == "copy" else sources[0] + np.float32(SCALE) * sources[-1]
    if not np.allclose(target, want, rtol=1e-6, atol=1e-6):
        sys.exit(f"error: our {access} is wrong")
    # C works on doubles, as STREAM does: the bytes are the same, the numbers must be doubles.
    for word in words[1:]:
        word[:] = np.random.default_rng(1).standard_normal(word.size)
    peer()
    right = words[1] if access == "copy" else words[1] + SCALE * words[-1]
    if not np.allclose(words[0], right, rtol=1e-12, atol=1e-12):
        sys.exit(f"error: the {access} in C is wrong")
    for array in sources:
        array[:] = 1.0
    ours_s, peer_s = in_turns(ours, peer, rounds)
    moved = float(sum(a.nbytes for a in buffers.arrays))
    return line(
        f"dram.{access}, {threads} threads, {moved / 1e6:.0f} MB",
        median(ours_s),
        PEER,
        median(peer_s),
        moved,
        best.high,
        f"dram.{access}, best sample",
        BANDWIDTH_TARGET,
    )


def fma_line(precision: str, machine: Machine, threads: int, budget_s: float) -> dict[str, Any]:
    """Compare multiply-adds in registers with clock x pipes x lanes x 2."""
    (candidate,) = cpu_compute.fma_candidates(precision, threads)
    rates = sample_best([candidate], get_device("cpu"), budget_s)
    case = f"vector.{precision}, {threads} thread(s)"
    if machine.fma_pipes is None or machine.fma_pipe_bits is None:
        peer = f"clock x pipes x lanes x 2: pipes of {machine.cpu_model} not known"
        return line(
            case, candidate.work / rates.value, peer, None, candidate.work, rates.high, "best sample", FMA_TARGET
        )
    clock = measure_clock_hz()
    lanes = machine.fma_pipe_bits // {"fp32": 32, "fp64": 64}[precision]
    peak = clock * machine.fma_pipes * lanes * 2 * threads
    peer = f"{clock / 1e9:.2f} GHz x {machine.fma_pipes} pipes x {lanes} lanes x 2 ({machine.microarchitecture})"
    seconds = candidate.work / rates.value
    return line(case, seconds, peer, candidate.work / peak, candidate.work, peak, "peak of the pipes", FMA_TARGET)


def line(
    case: str, ours_s: float, peer: str, peer_s: float | None, work: float, roof: float, roof_name: str, target: float
) -> dict[str, Any]:
    """Return one comparison; ``rate`` is work per second of our side."""
    speedup = None if peer_s is None else peer_s / ours_s
    return {
        "case": case,
        "ours_s": ours_s,
        "peer": peer,
        "peer_s": peer_s,
        "speedup": speedup,
        "fraction_of_roof": work / ours_s / roof,
        "roof": f"{roof_name}: {roof / 1e9:.4g} G/s",
        "target": target,
        "met": None if speedup is None else speedup >= target,
        "rate": work / ours_s,
    }


def lines(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield all comparisons."""
    machine = inspect_machine()
    threads = configure_threads()
    rounds, budget_s = (15, 0.5) if quick else (60, 2.0)
    with tempfile.TemporaryDirectory() as folder:
        library = compile_c(Path(folder))
        for count in dict.fromkeys((threads, 1)):
            for access in ("triad", "copy"):
                yield bandwidth_line(access, library, machine, count, rounds)
    for count in dict.fromkeys((threads, 1)):
        for precision in ("fp32", "fp64"):
            yield fma_line(precision, machine, count, budget_s)


def main() -> None:
    """Print the comparisons; exit code 1 if a target was missed."""
    parser = argparse.ArgumentParser(description="The CPU's ceilings against C and against the silicon.")
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    options = parser.parse_args()
    missed = False
    if not options.json:
        print(f"{'case':36} {'ours G/s':>9} {'peer G/s':>9} {'ratio':>6} {'target':>6} met  of roof  peer")
    for found in lines(options.quick):
        missed |= found["met"] is False
        if options.json:
            print(json.dumps(found, allow_nan=False), flush=True)
            continue
        ratio = found["speedup"]
        peer_rate = "" if ratio is None else f"{found['rate'] / ratio / 1e9:9.1f}"
        met = {True: "yes", False: "NO", None: "-"}[found["met"]]
        print(
            f"{found['case']:36} {found['rate'] / 1e9:9.1f} {peer_rate:>9} {ratio or float('nan'):6.2f} "
            f"{found['target']:6.2f} {met:4} {found['fraction_of_roof']:7.1%}  {found['peer']}",
            flush=True,
        )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
