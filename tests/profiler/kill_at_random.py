"""Kill a run 30 times at random moments and resume it: no row that was reported as written may be lost.

Run as a script: ``python kill_at_random.py FOLDER KILLS``; prints one JSON object.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

from roofcast.kernels import load_plugin, make_workload
from roofcast.profiler import Case, RunFolder, Settings, load_run, measure, run_cases

SIZES = [1000 + 10 * i for i in range(400)]
SETTINGS = Settings(budget_s=0.004, warm_up_s=0.001, energy_s=0.0, threads=1)


def cases():
    """Return more cases than the kills leave time for."""
    return [Case("toy.scale", make_workload("toy.scale", {"n": n}), "double", "cpu", "warm") for n in SIZES]


def measure_in_child(folder: Path, report: int) -> None:
    """Resume the run, writing the key of every row that counts as written to a pipe."""

    def tell(progress):
        if progress.stage == "written":
            os.write(report, (progress.row.key + "\n").encode())

    with RunFolder.create(folder, resume=True) as run:
        run_cases(cases(), run, settings=SETTINGS, on_progress=tell)
    os._exit(0)


def kill_once(folder: Path, after_s: float) -> list[str]:
    """Start a child, kill it after some seconds and return the keys that it reported."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        measure_in_child(folder, write)
    os.close(write)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read().split("\n")[:-1]


def main() -> None:
    """Kill, look, kill again."""
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    load_plugin(Path(__file__).with_name("toy_operator.py"))
    list(measure(cases()[:1], SETTINGS))  # Import everything here, so that the kills fall among measurements.
    chance = random.Random(20_261_201)
    reported: list[str] = []
    lost, added = 0, []
    for _ in range(kills):
        before = len(reported)
        reported += kill_once(folder, chance.uniform(0.01, 0.25))
        added.append(len(reported) - before)
        if (folder / "measurements.jsonl").exists() and (folder / "run.json").exists():
            stored = [row.key for row in load_run(folder).rows.all]
            lost += len(set(reported) - set(stored)) + (len(stored) - len(set(stored)))
            # At most the row whose report was cut off by the kill is stored and not reported.
            lost += max(0, len(set(stored) - set(reported)) - 1)
            reported = stored
    sys.stdout.write(json.dumps({"kills": kills, "lost": lost, "rows": len(reported), "added": added}) + "\n")


if __name__ == "__main__":
    main()
