"""koord-scheduler --record-to, and what koordctl schedule --replay makes of its file."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import PODS
from koord_scheduler.framework.recording import RecordingHeader, TickInput, recording_line
from koord_scheduler.io import recorder as module
from koord_scheduler.io.recorder import Recorder
from koord_scheduler.program.replay import replay

from tests.docs.test_scheduler_page import MOST_ALLOCATED
from tests.docs.test_scheduler_page import recording as page_recording
from tests.koordctl.conftest import Failing, Run
from tests.koordctl.conftest import failing as failing
from tests.koordctl.conftest import kubeconfig as kubeconfig
from tests.koordctl.conftest import run as run
from tests.scheduler.framework.test_replay import OneNodeRecording
from tests.scheduler.program.test_program import NAMESPACE, Side
from tests.scheduler.program.test_program import side as side
from tests.support.kube_api import KubeApi
from tests.support.scheduler_program import QUICK, SchedulerProgram
from tests.support.waiting import until

HEADER = RecordingHeader(1, time.time(), time.monotonic())


@pytest.fixture
def api(side: Side) -> KubeApi:
    return side.api


@pytest.fixture
async def recording(side: Side, kubeconfig: Path, tmp_path: Path) -> Path:
    """Of a scheduler that was killed: c waits until b is gone, d fits nowhere."""
    program = SchedulerProgram("s1", tmp_path, kubeconfig, *QUICK, f"--record-to={tmp_path}")
    side.node("n1", "4")
    side.node("n2", "2500m")
    program.start()
    try:
        for name in ("a", "b"):
            await side.pod(name, "2")
            await side.bound(name)
        await side.pod("c", "2500m", env=[{"name": "a", "value": "hidden"}])
        await until(lambda: side.scheduled("c"), "its condition")
        await side.pod("d", "9")
        await until(lambda: side.scheduled("d"), "its condition")
        side.api.delete(PODS, "b", NAMESPACE)
        await side.bound("c")
        [path] = tmp_path.glob("s1_*.jsonl.gz")
        await until(lambda: text(path).count(b'"placed"') == 3, "all bindings are written")
        program.kill()
    finally:
        program.close()
    return path


def text(path: Path) -> bytes:
    """What can be read of a file that is being written."""
    return zlib.decompressobj(wbits=31).decompress(path.read_bytes())


def replayed(run: Run, *arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("schedule", "--replay", *map(str, arguments), "--json"))
    return found


def outcomes(found: dict[str, Any], side: str) -> list[tuple[str, str]]:
    made = [one[side] for one in found["decisions"]]
    return [(one["pod"].removeprefix("shop/"), one["node"]) for one in made]


async def test_the_decisions_of_a_killed_scheduler(
    recording: Path, run: Run, tmp_path: Path
) -> None:
    assert recording.stat().st_mode & 0o777 == 0o600
    found = replayed(run, recording)
    expected = [("a", "n1"), ("b", "n2"), ("c", ""), ("d", ""), ("c", "n2")]
    assert outcomes(found, "recorded") == outcomes(found, "replayed") == expected
    assert all(one["same"] for one in found["decisions"])
    assert (found["end"], found["moved"], found["explained"]) == ("", [], [])
    lines = run("schedule", "--replay", str(recording)).splitlines()
    assert lines[5].split() == ["5", *lines[5].split()[1:3], "shop/c", "n2"]
    assert lines[-1] == "All decisions are the same."

    # Each decision about a pod, as of its moment.
    waits, placed = replayed(run, recording, "--why=shop/c")["explained"]
    assert (waits["number"], waits["state"]) == (3, "unschedulable")
    assert waits["diagnosis"]["nearest"][0] == {
        "node": "n1", "lacks": {"cpu": "500m"}, "plugins": [], "notes": []
    }  # fmt: skip
    assert (placed["number"], placed["node"], placed["feasible"]) == (5, "n2", 1)
    lines = run("schedule", "--replay", str(recording), "--why=shop/c").splitlines()
    assert "    n1 lacks 500m cpu" in lines

    # A file that was cut off.
    torn = tmp_path / "torn.gz"
    torn.write_bytes(recording.read_bytes()[: recording.stat().st_size * 3 // 4])
    before = replayed(run, torn)["decisions"]
    assert before == found["decisions"][: len(before)]
    with pytest.raises(SystemExit, match="1"):
        run("schedule", "--replay", str(recording), "--why=shop/none")


async def test_the_configuration_is_recorded(
    side: Side, kubeconfig: Path, tmp_path: Path, run: Run
) -> None:
    """As far as it decides, and the seed, without which other nodes of these would be taken."""
    config = tmp_path / "most.yaml"
    config.write_text(f"{MOST_ALLOCATED}\nleaderElection: {{resourceName: other}}")
    flags = f"--config={config}", f"--record-to={tmp_path}", "--tie-break-seed=1"
    program = SchedulerProgram("s1", tmp_path, kubeconfig, *QUICK, *flags)
    for number in range(8):
        side.node(f"n{number}")
    program.start()
    try:
        for name in "abc":
            await side.pod(name, "3")
            await side.bound(name)
        assert program.stop() == 0
    finally:
        program.close()
    [path] = tmp_path.glob("s1_*.jsonl.gz")
    header = json.loads(text(path).splitlines()[0])
    assert (header["tieBreakSeed"], set(header["configuration"])) == (
        1,
        {"apiVersion", "kind", "profiles"},
    )
    found = replayed(run, path)
    assert len(found["decisions"]) == 3
    assert all(one["same"] for one in found["decisions"])


async def test_another_profile(recording: Path, run: Run, tmp_path: Path, failing: Failing) -> None:
    config = tmp_path / "most.yaml"
    config.write_text(MOST_ALLOCATED)
    found = replayed(run, recording, f"--config={config}")
    # Where a and b are bound now decides where c goes.
    expected = [("a", "n2"), ("b", "n1"), ("c", ""), ("d", ""), ("c", "n1")]
    assert outcomes(found, "replayed") == expected
    assert [one["same"] for one in found["decisions"]] == [False, False, True, True, False]
    assert found["moved"] == [
        {"pod": "shop/a", "recorded": "n1", "replayed": "n2"},
        {"pod": "shop/b", "recorded": "n2", "replayed": "n1"},
        {"pod": "shop/c", "recorded": "n2", "replayed": "n1"},
    ]
    [first] = found["explained"]
    assert (first["number"], [one["node"] for one in first["best"]]) == (1, ["n2", "n1"])
    lines = run("schedule", "--replay", str(recording), f"--config={config}").splitlines()
    assert lines[1].split()[3:] == ["shop/a", "n2", "n1"]
    assert next(one for one in lines if one.endswith("  recorded")).split()[1] == "n1"
    config.write_text(MOST_ALLOCATED.replace("args", "arguments"))
    code, said = failing("schedule", "--replay", str(recording), f"--config={config}")
    assert (code, "pluginConfig" in said) == (2, True)


def test_a_pod_that_had_its_node_before() -> None:
    explained = replay(page_recording, MOST_ALLOCATED, "shop/web-2")["explained"]
    expected = [(3, "placed"), (4, "not waiting")]
    assert [(one["number"], one["state"]) for one in explained] == expected


def test_a_pod_is_refused_with_its_class() -> None:
    recorded = OneNodeRecording()
    for name in "ab":
        recorded.pod(name, name)
    while recorded.scheduler.decide(0.0):
        pass
    recorded.scheduler.forget(recorded.scheduler.assumed["d/a"], 0.0)
    recorded.scheduler.tick(10.0)
    assert recorded.scheduler.decide(10.0)
    lines = [*map(recording_line, (HEADER, *recorded.inputs))]
    # These nodes have no room for pods, which the recorded profile did not ask.
    for pod, numbers in (("a", [1, 3]), ("b", [1, 2])):
        explained = replay(lambda: lines, why=f"d/{pod}")["explained"]
        assert [one["number"] for one in explained] == numbers
        assert {one["state"] for one in explained} == {"unschedulable"}
    assert [one["number"] for one in replay(lambda: lines)["explained"]] == [1]


def damaged() -> bytes:
    """A header, and then what gzip never writes."""
    compressor = zlib.compressobj(wbits=31)
    header = compressor.compress(recording_line(HEADER) + b"\n")
    return header + compressor.flush(zlib.Z_SYNC_FLUSH) + b"\xff" * 8


def packed(content: bytes) -> bytes:
    """The same bytes at any time: the workers must name the cases alike."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a recording"),
        (b"no gzip", "incorrect header"),
        (packed(b"{}\n"), "not a recording"),
        (packed(b'{"koordSchedulerRecording":1,"started":1}\n'), "not a recording"),
        (packed(recording_line(HEADER) + b'\n["tick"\n["tick",1]\n'), "line 2"),
        (packed(recording_line(HEADER) + b'\n["put",1,"Robot","a",{}]\n'), "Robot"),
        (damaged(), "invalid block type"),
        (packed(b'{"koordSchedulerRecording":7,"started":1,"monotonic":1}\n'), "newer"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, failing: Failing, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    code, line = failing("schedule", "--replay", str(path))
    assert code == 2
    assert said in line
    assert str(path) in line


@pytest.mark.parametrize(
    "arguments", [["--replay=x", "-f=y"], ["--replay=x", "--snapshot=y"], ["--what-if"]]
)
def test_flags_that_do_not_go_together(failing: Failing, arguments: list[str]) -> None:
    assert failing("schedule", *arguments)[0] == 2


async def test_a_scheduler_that_stops_says_so(side: Side, tmp_path: Path, run: Run) -> None:
    recorder = Recorder(tmp_path, "s1", HEADER)
    side.node("n1")
    async with side.scheduler(recorder=recorder):
        await side.pod("a")
        await side.bound("a")
    gzip.decompress(recorder.path.read_bytes())
    found = replayed(run, recorder.path)
    assert (outcomes(found, "replayed"), found["end"]) == ([("a", "n1")], "the scheduler stopped")


@pytest.mark.parametrize("fault", ["no folder", "exists", "full", "long", "slow"])
async def test_a_recording_that_fails_ends_alone(
    side: Side,
    tmp_path: Path,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "none" if fault == "no folder" else tmp_path
    limits = {"long": {"most_bytes": 1}, "slow": {"most_unwritten": 1}}
    recorder = Recorder(folder, "s1", HEADER, **limits.get(fault, {}))
    if fault == "exists":
        recorder.path.write_bytes(b"other")
    if fault == "full":
        monkeypatch.setattr(module, "_new_file", lambda _: open("/dev/full", "wb", 0))  # noqa: SIM115
    side.node("n1")
    async with side.scheduler(recorder=recorder):
        await until(lambda: recorder.reason, "it has ended")
        recorder.record(TickInput(1.0))
        await side.pod("a")
        await side.bound("a")
    assert not recorder._lines
    if fault == "exists":
        assert recorder.path.read_bytes() == b"other"
    if fault in ("long", "slow"):
        assert json.loads(text(recorder.path).splitlines()[-1])[2] == recorder.reason
