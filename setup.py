"""Install the rooms at the top of this repository as ``roofcast.<room>``.

Written as code and not in pyproject.toml because setuptools cannot find packages below a mapped directory.
"""

from pathlib import Path

from setuptools import find_packages, setup

ROOMS = ("kernels", "profiler", "roofline", "hwprofiles", "cli")
DATA = ("*.yaml", "*.csv", "*.json", "*.j2", "*.md", "*.parquet", "*.jsonl", "py.typed")

packages = find_packages(".", include=[p for r in ROOMS for p in (r, f"{r}.*")])
here = Path(__file__).parent

setup(
    packages=[f"roofcast.{package}" for package in packages],
    package_dir={f"roofcast.{room}": room for room in ROOMS if (here / room).is_dir()},
    package_data={f"roofcast.{package}": list(DATA) for package in packages},
    zip_safe=False,
)
