"""kill -9 at any moment loses at most the case in flight."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kill_at_random.py")


def test_thirty_kills_lose_no_row(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "run", "30"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["kills"] == 30
    assert result["lost"] == 0
    assert result["rows"] > 30  # The kills fell among rows being written, not before the first one.
