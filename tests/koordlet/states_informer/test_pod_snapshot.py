from dataclasses import replace
from pathlib import Path

import pytest
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koordlet.states_informer.pod_snapshot import PodSnapshot
from koordlet.states_informer.state.pod_inventory import PodRecord

POD = Pod(
    "web-1",
    "shop",
    "u1",
    {"koordinator.sh/qosClass": "LSE"},
    {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0"}'},
    "/kubepods/podu1",
    resources=LinuxResources(cpu_quota=-1, hugepage_limits={"2MB": 1}),
)
MAIN = Container(POD, "main", "c1", resources=LinuxResources(cpu_shares=2), env={"TOKEN": "s3cret"})
RECORD = PodRecord(POD, {"c1": MAIN}, runtime="cri-o")
WITHOUT_ENV = replace(RECORD, containers={"c1": replace(MAIN, env={})})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "pods.json"


def remembered(path: Path, reported: list[str] | None = None, boot: str = "b1") -> PodSnapshot:
    return PodSnapshot(str(path), boot, [].append if reported is None else reported.append)


def test_what_was_kept_is_known_again_without_secrets(path: Path) -> None:
    remembered(path).keep((RECORD,))
    assert remembered(path).load() == (WITHOUT_ENV,)
    assert "s3cret" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["pods.json"]


def test_nothing_is_written_where_nothing_has_changed(path: Path) -> None:
    file = remembered(path)
    file.keep((RECORD,))
    before = path.stat()
    file.keep((RECORD,))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_another_boot_says_nothing(path: Path) -> None:
    remembered(path).keep((RECORD,))
    assert remembered(path, boot="b2").load() == ()


def test_no_file_is_no_problem(path: Path) -> None:
    reported: list[str] = []
    assert remembered(path, reported).load() == ()
    assert reported == []


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"boot":"b1"}', b'{"boot":"b1","pods":[{}]}', b"\xff"]
)
def test_what_cannot_be_read_is_reported_and_begun_anew(path: Path, text: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    reported: list[str] = []
    file = remembered(path, reported)
    assert file.load() == ()
    assert len(reported) == 1
    assert str(path) in reported[0]
    file.keep((RECORD,))
    assert file.load() == (WITHOUT_ENV,)


def test_what_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    reported: list[str] = []
    file = remembered(tmp_path / "state" / "pods.json", reported)
    file.keep((RECORD,))
    file.keep((RECORD, RECORD))
    assert len(reported) == 1
