"""Scenario files: the shipped ones load, and what is wrong is said once, with file, line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofcast.roofline.loop.scenario_file import ScenarioError, find_scenario, load_scenario, scenario_names

ROOT = Path(__file__).resolve().parents[2]
SMALL = """\
name: small
model: Qwen3-8B
algorithm: {prompts: 8, rollouts: 8}
lengths:
  prompt: {distribution: fixed, tokens: 100}
  response: {distribution: lognormal, mean: 900, sigma: 0.7, max: 4096}
cluster: {gpus: 8}
reward:
  seconds: 2 s
  memory: 1 GiB
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def _changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("name", scenario_names())
def test_shipped_scenarios_load_under_their_name_and_path(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.title
    assert find_scenario(ROOT / "scenarios" / f"{name}.yaml").is_file()


def test_units_are_converted(small: Path) -> None:
    scenario = load_scenario(_changed(small, "seconds: 2 s", "seconds: 2 min"))
    assert scenario.reward.seconds == 120
    assert scenario.reward.memory == 2**30


def test_overrides_replace_fields(small: Path) -> None:
    assert load_scenario(small, {"cluster.gpus": 16}).cluster.gpus == 16


def test_lengths_of_a_sequence(small: Path) -> None:
    scenario = load_scenario(small)
    assert scenario.mean_length == pytest.approx(1000, rel=0.01)
    assert scenario.tokens == pytest.approx(64_000, rel=0.01)
    # Longer sequences hold more than their share of pairs.
    assert scenario.pairs > 0.5 * 1000**2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpus: 8", "gpu: 8", r":7: cluster\.gpu = 8: is not a field.*gpus"),
        ("rollouts: 8", "rolouts: 8", r":3: algorithm\.rolouts = 8: is not a field.*rollouts"),
        ("gpus: 8", "gpus: -8", r":7: cluster\.gpus = -8"),
        ("seconds: 2 s", "seconds: 2 GiB", r":9: reward\.seconds = '2 GiB'.*30 s"),
        ("seconds: 2 s", "seconds: 2", r":9: reward\.seconds = 2: has no unit.*30 s"),
        ("seconds: 2 s", "seconds: soon", r":9: reward\.seconds = 'soon'"),
        ("model: Qwen3-8B", "model: Qwen3-9B", r":2: model = 'Qwen3-9B'.*Qwen3-8B"),
        ("cluster: {gpus: 8}", "", r"cluster: is missing"),
        ("max: 4096", "max: 60000", r"more than the 40960"),
        ("mean: 900", "mean: 5000", r"mean = 5000"),
        ("gpus: 8}", "gpus: 8}\nschedule: async", r"async needs placement: split"),
        ("gpus: 8}", "gpus: 8}\nschedule: asynk", r":8: schedule = 'asynk': must be one of 'sync'"),
        ("gpus: 8}", "gpus: 8}\nrollout: {tensor: 3}", r"replicas of 3 GPUs do not divide"),
        ("gpus: 8}", "gpus: 8}\ntrain: {expert: 8}", r"does not divide the experts"),
        ("distribution: fixed", "distribution: fixt", r":5: lengths\.prompt"),
        ("name: small", "name: small\nname: again", r"stands twice"),
        ("prompt: {", "prompt: [", r"is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(small: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said) as caught:
        load_scenario(_changed(small, old, new))
    assert "small.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_scenario_names_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="qwen3-30b-a3b-grpo-math"):
        load_scenario("qwen3-30b-grpo-math")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text\n"])
def test_a_file_that_is_no_scenario(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"odd\.yaml"):
        load_scenario(path)
