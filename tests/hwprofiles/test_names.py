"""Names are forgiving, old names say what happened, and a miss names the nearest."""

from pathlib import Path

import pytest
from roofcast.hwprofiles import ProfileError, UnknownProfileError, entries, load, names, use_directory
from roofcast.hwprofiles.catalogue import find_file
from roofcast.hwprofiles.summary import summaries

OWN = """\
name: {name}
title: Own
kind: gpu
vendor: me
architecture: own
status: shipping
aliases: [own-alias]
defaults: {{source: bench, confidence: medium}}
memory: {{dram: {{bandwidth: 1 TB/s}}}}
sources: {{bench: {{title: Own measurement, date: 2026}}}}
"""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("b200", "b200-hgx"),
        ("B200-SXM", "b200-hgx"),
        ("NVIDIA B200", "b200-hgx"),
        ("vr nvl72", "vera-rubin-nvl72"),
        ("VR200_NVL72", "vera-rubin-nvl72"),
        ("NVL72 Vera Rubin", "vera-rubin-nvl72"),
        ("Rubin", "rubin-r200"),
        ("GB300 NVL72", "gb300-nvl72"),
        ("dgx h100", "hgx-h100"),
        ("A100 PCIe 80GB", "a100-pcie-80gb"),
        ("rtx5090", "rtx-5090"),
        ("Xeon Platinum 8480+", "xeon-8480+"),
        ("Ironwood", "tpu7x"),
        ("venice", "epyc-9996"),
    ],
)
def test_forgiving(typed: str, meant: str) -> None:
    assert load(typed).name == meant


@pytest.mark.parametrize("name", names())
def test_every_name_alias_and_title_finds_its_profile(name: str) -> None:
    entry = entries()[name]
    for typed in (name, name.upper(), entry.title, *(alias for alias, _ in entry.aliases)):
        assert load(typed).name == name


@pytest.mark.parametrize(
    ("typed", "learns"),
    [
        ("rubin cpx", "removed from NVIDIA's roadmap in March 2026"),
        ("VR NVL144 CPX", "Went with Rubin CPX"),
        ("vera rubin nvl144", "renamed it to NVL72"),
        ("nvl144", "Kyber rack of 144 Rubin Ultra"),
        ("nvl576", "576 dies"),
        ("h100", "was taken as the SXM5"),
        ("mi450", "the product is MI455X"),
    ],
)
def test_names_that_teach(typed: str, learns: str) -> None:
    assert any(learns in notice for notice in load(typed).notices)


def test_exact_names_have_no_notice() -> None:
    assert load("h100-sxm").notices == ()


@pytest.mark.parametrize(
    ("typed", "near"), [("b2000", "b200"), ("gb300-nvl27", "gb300-nvl72"), ("hopper", "grace-hopper")]
)
def test_a_miss_names_the_nearest(typed: str, near: str) -> None:
    with pytest.raises(UnknownProfileError, match=near) as caught:
        load(typed)
    assert typed in str(caught.value)


@pytest.mark.parametrize(
    "typed", ["", "  ", "_hopper", "../gpus/b200-hgx", "/etc/passwd", "nosuch", "\x00", "a" * 10_000]
)
def test_odd_names_are_unknown(typed: str) -> None:
    with pytest.raises(UnknownProfileError):
        load(typed)


def test_own_directory_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OWN.format(name="mine"))
    (tmp_path / "b200-hgx.yaml").write_text(OWN.format(name="b200-hgx").replace("own-alias", "b200"))
    use_directory(tmp_path)
    try:
        assert load("own alias").name == "mine"
        assert load("b200").vendor == "me"
        assert "mine" in names("gpu")
        (tmp_path / "mine.yaml").write_text(OWN.format(name="mine").replace("1 TB/s", "2 TB/s"))
        assert load("mine").figures()["memory.dram.bandwidth"].value == 2e12
    finally:
        use_directory(None)
    assert load("b200").vendor == "nvidia"
    with pytest.raises(UnknownProfileError):
        load("own alias")


def test_directory_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(OWN.format(name="mine"))
    monkeypatch.setenv("ROOFCAST_HWPROFILES", str(tmp_path))
    assert load("mine").path == tmp_path / "mine.yaml"
    monkeypatch.setenv("ROOFCAST_HWPROFILES", str(tmp_path / "nosuch"))
    with pytest.raises(NotADirectoryError):
        load("mine")


def test_user_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "roofcast" / "hwprofiles"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(OWN.format(name="mine"))
    assert load("mine").path == folder / "mine.yaml"


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [\n")
    (tmp_path / "wrong.yaml").write_text(OWN.format(name="wrong").replace("1 TB/s", "1 TB"))
    use_directory(tmp_path)
    try:
        assert load("B200 SXM").name == "b200-hgx"
        for name in ("broken", "wrong"):
            with pytest.raises(ProfileError):
                load(name)
        problems = {row.name: row.problem for row in summaries() if row.problem}
        assert set(problems) == {"broken", "wrong"}
    finally:
        use_directory(None)


def test_ambiguous_names_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(OWN.format(name=name).replace("title: Own", f"title: Own {name}"))
    use_directory(tmp_path)
    try:
        with pytest.raises(UnknownProfileError, match="ambiguous: one, two"):
            load("own-alias")
    finally:
        use_directory(None)


def test_families_are_found_for_extends_only() -> None:
    assert find_file("_hopper").name == "_hopper.yaml"
    assert "_hopper" not in names()
