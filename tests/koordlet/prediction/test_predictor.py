import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from koord_model.demand import Demand
from koord_model.pod import Pod
from koord_prediction.amount import ResourceAmount
from koord_prediction.peak import PeakPolicy, PredictedPeak
from koordlet.metric_cache.core.interface import AggregatedSeries, Aggregation, TimeWindow
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.metric_cache.core.samples import Series
from koordlet.prediction.predictor import (
    CheckpointDirectory,
    Predictor,
    TrainingSettings,
    node_allocatable,
)
from koordlet.prediction.training_result import TrainingResult
from koordlet.states_informer.state.pod_inventory import PodRecord

GIB = 2**30
NOW = 1.7e9
OLD = NOW - 10 * 86400
MINUTE = 60.0


class Cache:
    """Answers with what the test put there, whatever the window; remembers that."""

    def __init__(self) -> None:
        self.p90: dict[str, dict[tuple[str, ...], float]] = {}
        self.windows: set[tuple[float, float]] = set()

    def measured(self, labels: tuple[str, ...], cores: float, memory: float) -> None:
        who = "pod" if labels else "node"
        self.p90.setdefault(f"{who}_cpu_usage", {})[labels] = cores
        self.p90.setdefault(f"{who}_memory_usage", {})[labels] = memory

    def aggregate(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> AggregatedSeries:
        assert list(aggregations) == [Aggregation.P90]
        self.windows.add((window.start, window.end))
        found = self.p90.get(kind, {})
        values = np.array(list(found.values()))
        column = {Aggregation.P90: values} if found else {}
        series = tuple(Series(kind, labels) for labels in found)
        return AggregatedSeries(series, column, np.ones(len(found), np.int64), values, values)


def record(uid: str, cores: int = 4, started: float = OLD, **demand: Any) -> PodRecord:
    requests = {"cpu": 1000 * cores, "memory": cores * GIB}
    plain = Demand(priority=9500, phase="Running", started=started, requests=requests)
    asked = replace(plain, **demand)
    return PodRecord(Pod(uid, "shop", uid, cgroup_parent=f"/kubepods/pod{uid}"), demand=asked)


class Rig:
    """A server over a cache, a list of pods and a directory, all the test's."""

    def __init__(self, path: Path, learning: TrainingSettings | None = None) -> None:
        self.cache, self.path = Cache(), path
        self.pods: tuple[PodRecord, ...] = ()
        self.allocatable: ResourceAmount | None = ResourceAmount(32, 64 * GIB)
        self.said: list[str] = []
        self.learning = learning or TrainingSettings(rules=PeakPolicy(margin=0))
        self.server = self.another()

    def train(self, *pods: PodRecord, **cores: float) -> None:
        """Train with these pods; ``cores`` are used by UID and by the node, and a GiB each."""
        self.pods = pods
        for uid, used in cores.items():
            self.cache.measured(() if uid == "node" else (uid,), used, used * GIB)
        self.server.train(NOW)

    def another(self) -> Predictor:
        """One that starts on the same directory."""
        return Predictor(
            self.learning,
            self.cache,
            CheckpointDirectory(str(self.path), self.said.append),
            lambda: self.pods,
            lambda: self.allocatable,
        )


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "models")


def near(cores: float) -> object:
    """The end of a bucket, and of the first one for the system or a class that idles."""
    return pytest.approx(cores, rel=0.09)


def prod(rig: Rig) -> PredictedPeak:
    found = rig.server.prediction.prod
    assert found is not None
    return found


def test_learns_from_the_last_interval_and_predicts(rig):
    assert rig.server.prediction.prod is None
    assert rig.server.training == TrainingResult()
    rig.cache.measured((), 2, 3 * GIB)
    rig.train(record("a"), record("b", cores=2), a=1, b=0.5)
    assert rig.cache.windows == {(NOW - MINUTE, NOW)}
    found = prod(rig)
    assert found.reclaimable is not None
    # By priority: 1.5 of pods and 0.5 of the system.
    assert found.peak.cpu == pytest.approx(2, rel=0.08)
    assert found.peak.memory == pytest.approx(3 * GIB, rel=0.08)
    assert found.reclaimable.cpu == pytest.approx(4, rel=0.06)
    assert rig.server.by_predictor().keys() == {
        "podReclaimablePredictor",
        "priorityReclaimablePredictor",
        "minPredictor",
    }
    assert rig.server.by_predictor()["podReclaimablePredictor"].peak.cpu == near(1.5)
    training = rig.server.training
    assert (training.at, training.cold) == (NOW, frozenset())
    assert training.models["a"]["p95"].cpu == near(1)
    assert training.models["__node__"]["max"].memory == pytest.approx(3 * GIB, rel=0.06)
    assert training.models.keys() == {*PARTS, "a", "b"}


def test_pods_of_other_classes_are_learnt_and_not_counted(rig):
    rig.train(record("a"), record("b", priority=5500), a=1, b=8, node=9)
    assert rig.server.training.models["__node-koord-batch__"]["max"].cpu == near(8)
    assert prod(rig).peak.cpu == near(1)


@pytest.mark.parametrize("how", [{"terminating": True}, {"phase": "Succeeded"}])
def test_ending_pods_request_nothing(rig, how):
    rig.train(record("a", **how), a=0, node=0)
    assert rig.server.by_predictor()["podReclaimablePredictor"].peak == ResourceAmount()
    assert prod(rig).reclaimable == ResourceAmount()


def test_young_pods_count_with_their_request(rig):
    rig.train(record("a", started=NOW - 100), a=1, node=1)
    assert prod(rig).peak.cpu == 4
    assert rig.server.prediction.cold == ("a",)
    assert rig.server.training.cold == {"a"}


def test_pods_that_are_in_no_list_are_learnt_only(rig):
    rig.train(PodRecord(Pod("a", "shop", "a", cgroup_parent="/kubepods/poda")), a=1, node=1)
    assert rig.server.training.models["__node-koord-prod__"]["max"].cpu == near(1)
    assert rig.server.by_predictor()["podReclaimablePredictor"].peak == ResourceAmount()


@pytest.mark.parametrize("uid", ["../../etc/passwd", "", ".hidden", "__node__", "a/b"])
def test_a_uid_that_is_no_file_name_has_no_model(rig, uid):
    rig.train(record(uid), **{uid: 1})
    rig.server.checkpoint(NOW, everything=True)
    assert all(name.startswith("__node-") for name in names(rig))


def names(rig: Rig) -> list[str]:
    return sorted(file.name for file in rig.path.iterdir())


def fill(rig: Rig, pods: int = 2) -> None:
    uids = [f"pod-{number}" for number in range(pods)]
    rig.train(*map(record, uids), **dict.fromkeys(uids, 1), node=pods + 1)


PARTS = [
    "__node-__",
    "__node-koord-batch__",
    "__node-koord-free__",
    "__node-koord-mid__",
    "__node-koord-prod__",
    "__node-sys__",
    "__node__",
]


def test_models_are_written_and_come_back(rig):
    fill(rig)
    assert rig.server.checkpoint(NOW) == 9
    assert rig.server.checkpoint(NOW, everything=True) == 9, "again, over what is there"
    assert names(rig) == [*PARTS, "pod-0", "pod-1"]
    assert (rig.path / "pod-0").stat().st_mode & 0o777 == 0o600
    assert rig.path.stat().st_mode & 0o777 == 0o750
    assert json.loads((rig.path / "pod-0").read_bytes())["UID"] == "pod-0"
    other = rig.another()
    assert other.load(NOW + 60) == 9
    assert other.training == replace(rig.server.training, at=0.0), "shown before it is trained"
    assert rig.said == []


def test_a_few_are_written_a_step_the_oldest_first_and_none_too_soon(tmp_path):
    rig = Rig(tmp_path, TrainingSettings(per_step=4, checkpoint_interval=600))
    fill(rig)
    assert [rig.server.checkpoint(NOW + 60 * step) for step in range(4)] == [4, 4, 1, 0]
    assert rig.server.checkpoint(NOW + 599) == 0
    assert rig.server.checkpoint(NOW + 600) == 4
    assert rig.server.checkpoint(NOW + 601, everything=True) == 9


def test_the_gone_are_forgotten_with_their_files(rig):
    fill(rig)
    rig.server.checkpoint(NOW)
    rig.pods = rig.pods[:1]
    rig.server.train(NOW + 300)
    assert "pod-1" in names(rig), "a list may lack it for a while"
    rig.server.train(NOW + 301)
    assert names(rig) == [*PARTS, "pod-0"]


@pytest.mark.parametrize("off", [86400.0, 40 * 86400.0, -3600.0, 100 - NOW])
def test_a_clock_that_is_wrong_for_a_while_forgets_and_freezes_nothing(rig, off):
    fill(rig)
    for minute in range(1, 30):
        rig.server.train(NOW + MINUTE * minute)
    learnt = dict(rig.server.training.models)
    rig.server.checkpoint(NOW + 30 * MINUTE, everything=True)
    rig.server.train(NOW + 30 * MINUTE + off)
    rig.server.checkpoint(NOW + 30 * MINUTE + off, everything=True)
    assert dict(rig.server.training.models) == learnt
    # A start while the clock is wrong, or after it was: nothing is set aside, all is known.
    for start in (NOW + 31 * MINUTE + off, NOW + 32 * MINUTE):
        other = rig.another()
        assert other.load(start) == 9
        assert dict(other.training.models) == learnt
    rig.cache.measured(("pod-0",), 20.0, 20 * GIB)
    for minute in range(32, 150):
        rig.server.train(NOW + MINUTE * minute)
        other.train(NOW + MINUTE * minute)
    for server in (rig.server, other):
        assert server.training.models["pod-0"]["p95"].cpu == near(20), "what is new counts"
        assert server.training.models["pod-0"]["p60"].cpu != learnt["pod-0"]["p60"].cpu
    assert rig.said == []
    assert rig.server.checkpoint(NOW + 150 * MINUTE) > 0, "and is kept"


def test_files_of_pods_that_are_gone_at_the_start_go_later(rig):
    fill(rig)
    rig.server.checkpoint(NOW)
    other, later = rig.another(), NOW + 7 * 86400
    rig.pods = ()
    assert other.load(later) == 9, "however long nobody was here"
    other.train(later)
    assert "pod-0" in names(rig), "the list of pods may not be there yet"
    other.train(later + 1801)
    assert names(rig) == PARTS


def test_files_that_cannot_be_used_are_set_aside_until_the_next_start(rig):
    fill(rig)
    rig.server.checkpoint(NOW)
    (rig.path / "pod-0").write_bytes(b"\0" * 100)
    (rig.path / ".pod-1.part").write_bytes(b"half")
    assert rig.another().load(NOW) == 8
    [line] = rig.said
    assert line.startswith(f"{rig.path}/pod-0: no checkpoint: ")
    assert line.endswith("(set aside as pod-0.corrupt; that model is learnt anew)")
    assert names(rig) == [*PARTS, "pod-0.corrupt", "pod-1"]
    rig.said.clear()
    assert rig.another().load(NOW) == 8
    assert "pod-0.corrupt" not in names(rig)


def test_no_directory_yet_is_no_problem(rig):
    assert rig.server.load(NOW) == 0
    assert rig.said == []


def test_a_directory_that_cannot_be_used_is_reported_once(rig):
    rig.path.write_text("a file")
    assert rig.server.load(NOW) == 0
    assert rig.said == [f"{rig.path}: Not a directory (all models are learnt anew)"]
    rig.said.clear()
    fill(rig)
    assert rig.server.checkpoint(NOW) == rig.server.checkpoint(NOW + 600) == 0
    [line] = rig.said
    assert line.endswith("(models are not kept over a restart)")
    rig.path.unlink()
    assert rig.server.checkpoint(NOW + 1200) == 9


RAW = "node.koordinator.sh/raw-allocatable"


@pytest.mark.parametrize(
    ("annotations", "allocatable", "expected"),
    [
        ({}, {"cpu": 32000, "memory": 64}, ResourceAmount(32, 64)),
        ({RAW: '{"cpu":"16","memory":"32"}'}, {"cpu": 32000, "memory": 64}, ResourceAmount(16, 32)),
        ({RAW: '{"cpu":"16500m"}'}, {"cpu": 32000, "memory": 64}, ResourceAmount(16.5, 64)),
        ({RAW: '{"cpu":"16","memory":"1Ki"}'}, None, ResourceAmount(16, 1024)),
        ({}, None, None),
        ({}, {"cpu": 32000}, None),
    ],
)
def test_allocatable_before_amplification_comes_first(annotations, allocatable, expected):
    assert node_allocatable(annotations, allocatable) == (expected, "")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cpu":[]}'])
def test_an_annotation_that_cannot_be_read_is_said(text):
    found, ignored = node_allocatable({RAW: text}, {"cpu": 1000, "memory": 1})
    assert found == ResourceAmount(1, 1)
    assert ignored.startswith(f"annotation {RAW}: ")
    assert ignored.endswith("(ignored)")


@pytest.mark.parametrize(("who", "labels"), [("pod", ("pod_uid",)), ("node", ())])
def test_samples_are_of_the_kinds_the_cache_has(who, labels):
    for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
        kind = KINDS[f"{who}_{resource}_usage"]
        assert (kind.labels, kind.unit) == (labels, unit)
