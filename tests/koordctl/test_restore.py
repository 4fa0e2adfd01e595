import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_host import detect
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, RestoreResult
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordctl.errors import AskError
from koordctl.output.tables import plain
from koordctl.restore import document, put_back, report_lines

from koordctl import main as program
from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.journals import read
from tests.support.node import FakeKernel

GROUP = "kubepods/pod1"
SHARES, QUOTA = Target(GROUP, "cpu.shares"), Target(GROUP, "cpu.cfs_quota_us")
LAYOUT = Layout(1, Driver.CGROUPFS)


@pytest.fixture(autouse=True)
def cgroup_v1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "cgroup_version", lambda *_: 1)


@pytest.fixture
def files() -> FakeCgroupfs:
    found = FakeCgroupfs(1)
    found.make_group(GROUP)
    return found


@pytest.fixture
def state(tmp_path: Path, files: FakeCgroupfs) -> str:
    """The state directory of a koordlet that has changed two files, and stopped."""
    baselines = BaselineStore(f"{tmp_path}/originals.db")
    journal = Journal("", print)
    executor = Executor(files, LAYOUT, journal, baselines, clock=lambda: 1.0, monotonic=lambda: 1.0)
    wishes = (DesiredValue(SHARES, 512), DesiredValue(QUOTA, 50_000))
    executor.set_desired(Owner("hooks", Priority.HOOKS), "all", wishes)
    executor.apply()
    baselines.close()
    return str(tmp_path)


def shares(files: FakeCgroupfs) -> str:
    return files.read(LAYOUT.path(KNOBS["cpu.shares"], GROUP)).strip()


def test_everything_is_put_back_and_journalled(files: FakeCgroupfs, state: str) -> None:
    assert shares(files) == "512"
    report = put_back(files, state, print)
    assert [one.outcome for one in report] == [RestoreOutcome.RESTORED] * 2
    assert shares(files) == "1024"
    changes = list(read(f"{state}/journal.jsonl"))
    assert [(one.owner, one.knob, one.old, one.new) for one in changes] == [
        ("restore", "cpu.cfs_quota_us", 50_000, -1),
        ("restore", "cpu.shares", 512, 1024),
    ]
    assert put_back(files, state, print) == []
    [line] = plain(report_lines([]))
    # It did change something since the machine started, and that is restored.
    assert line.startswith("Nothing to restore")
    assert "since the machine started" not in line


def test_a_place_outside_of_groups_is_left(files: FakeCgroupfs, state: str) -> None:
    # Written into the database by somebody else: koordlet has no such places.
    with contextlib.closing(sqlite3.connect(f"{state}/originals.db")) as database, database:
        database.execute("UPDATE originals SET place = '../cpu/' || place")
    assert [
        (one.outcome, one.target.knob) for one in put_back(files, state, print, force=True)
    ] == [
        (RestoreOutcome.REFUSED, "cpu.cfs_quota_us"),
        (RestoreOutcome.REFUSED, "cpu.shares"),
    ]
    assert shares(files) == "512"


def test_while_koordlet_runs(files: FakeCgroupfs, state: str) -> None:
    running = BaselineStore(f"{state}/originals.db")
    with pytest.raises(AskError, match=r"koordlet is running.*systemctl stop koordlet.*-on-stop"):
        put_back(files, state, print)
    running.close()
    assert shares(files) == "512"


def test_where_nothing_can_be_done(
    files: FakeCgroupfs, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AskError, match=r"has no originals.db.*--state"):
        put_back(files, f"{tmp_path}/none", print)
    assert not (tmp_path / "none").exists()
    with pytest.raises(SystemExit) as left:
        program.main(["restore", "--state", str(tmp_path / "none")])
    assert left.value.code == 1

    def none(*_: object) -> int:
        raise detect.DetectError("/x: no cgroups")

    with monkeypatch.context() as patch:
        patch.setattr(detect, "cgroup_version", none)
        with pytest.raises(AskError, match="no cgroups"):
            put_back(files, state, print)
    Path(f"{state}/originals.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(AskError, match="was corrupt"):
        put_back(files, state, print)


REPORT = [
    RestoreResult(SHARES, RestoreOutcome.RESTORED, 512, 1024),
    RestoreResult(QUOTA, RestoreOutcome.SKIPPED, 7, 8, "changed by somebody else since"),
    RestoreResult(
        Target("g", "cpuset.cpus"), RestoreOutcome.REFUSED, "0", "0-1", "Device or resource busy"
    ),
    RestoreResult(Target("h", "cpu.idle"), RestoreOutcome.GONE),
    RestoreResult(Target("i", "cpu.idle"), RestoreOutcome.UNCHANGED, 0, 0),
]


def test_the_report_for_people() -> None:
    lines = plain(report_lines(REPORT))
    assert lines[0].split() == ["GROUP", "KNOB", "WAS", "NOW", "RESULT"]
    assert lines[1].split() == [GROUP, "cpu.shares", "512", "1024", "restored"]
    assert lines[2].endswith("7    7     skipped: changed by somebody else since")
    assert lines[3].endswith("refused: Device or resource busy")
    assert lines[-1] == (
        "1 restored, 1 unchanged, 1 in cgroups that no longer exist, "
        "1 skipped (--force restores it), 1 refused by the kernel."
    )


def test_the_report_of_a_dry_run(files: FakeCgroupfs, state: str) -> None:
    lines = plain(report_lines(put_back(files, state, print, dry_run=True), dry_run=True))
    now, would_be = lines[0].index("NOW"), lines[0].index("WOULD BE")
    [row] = [line for line in lines if "cpu.shares" in line]
    assert row[now:would_be].strip() == shares(files) == "512"
    assert row[would_be:].split() == ["1024", "would", "be", "restored"]
    assert lines[-1] == "2 would be restored."
    *_, last = plain(report_lines(REPORT[3:]))
    assert last == "0 restored, 1 unchanged, 1 in cgroups that no longer exist."


def test_a_name_with_control_characters_stays_one_line() -> None:
    one = RestoreResult(
        Target("a\x1b[31m\nb" + "c" * 100, "file"), RestoreOutcome.RESTORED, None, "x"
    )
    lines = plain(report_lines([one]))
    assert "\x1b" not in "".join(lines)
    assert lines[1].startswith("…")


def test_the_report_for_programs() -> None:
    first = document(REPORT)[0]
    assert first == {
        "group": GROUP,
        "knob": "cpu.shares",
        "fate": "restored",
        "old": 512,
        "new": 1024,
        "reason": "",
    }


@pytest.fixture
def on_fake(files: FakeCgroupfs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(program, "KernelFilesystem", lambda _roots: files)
    return monkeypatch


@pytest.mark.usefixtures("on_fake")
def test_the_command(files: FakeCgroupfs, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["restore", "--state", state, "--dry-run"])
    assert "2 would be restored." in capsys.readouterr().out
    program.main(["restore", "--state", state, "--json"])
    assert [one["fate"] for one in json.loads(capsys.readouterr().out)] == ["restored"] * 2
    assert shares(files) == "1024"


@pytest.mark.usefixtures("on_fake")
def test_the_command_says_by_its_exit_code_that_not_all_was_restored(
    files: FakeCgroupfs, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files.refusals[LAYOUT.path(KNOBS["cpu.shares"], GROUP)] = 22
    with pytest.raises(SystemExit) as left:
        program.main(["restore", "--state", state])
    assert left.value.code == 1
    assert "1 restored, 1 refused by the kernel." in capsys.readouterr().out


# ---- groups of the cache, which are no files with a value

CACHES = "/sys/fs/resctrl"


@pytest.fixture
def with_caches(tmp_path: Path) -> tuple[FakeKernel, str]:
    """A node whose koordlet was killed: a pod's group, its class's, and one of somebody else."""
    node, state = FakeKernel(1), str(tmp_path)
    node.cgroups.make_group(GROUP)
    baselines = BaselineStore(f"{state}/originals.db")
    keep = baselines.keep_cache_groups
    groups = ResctrlGroups(node, record=lambda *_: None, keep=keep)
    for name in ("BE", "koordlet-a"):
        groups.reconcile([Tenant(ResctrlLimits(name, llc=CacheWays(0, 50)), lambda: ())])
    node.resctrl.make_directory(f"{CACHES}/LS")
    baselines.close()
    return node, state


def test_cache_groups_that_koordlet_made_are_removed(with_caches: tuple[FakeKernel, str]) -> None:
    node, state = with_caches
    report = put_back(node, state, print, dry_run=True)
    removed = [
        RestoreResult(Target(name, "resctrl.group"), RestoreOutcome.RESTORED, "present", "absent")
        for name in ("BE", "koordlet-a")
    ]
    assert report == removed
    assert {"BE", "koordlet-a", "LS"} <= {*node.entries(CACHES)}
    assert put_back(node, state, print) == removed
    left = {*node.entries(CACHES)}
    assert (left & {"BE", "koordlet-a"}, "LS" in left) == (set(), True)
    assert [(one.owner, one.group, one.new) for one in read(f"{state}/journal.jsonl")] == [
        ("restore", "BE", "absent"),
        ("restore", "koordlet-a", "absent"),
    ]
    assert put_back(node, state, print) == []


def test_a_cache_group_that_stays(
    with_caches: tuple[FakeKernel, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, state = with_caches

    def busy(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    monkeypatch.setattr(node, "remove_directory", busy)
    report = put_back(node, state, print)
    assert {one.outcome for one in report} == {RestoreOutcome.REFUSED}
    assert "Device or resource busy" in report[0].reason
