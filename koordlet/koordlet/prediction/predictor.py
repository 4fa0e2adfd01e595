"""Learns what pods and the node use, predicts prod's peak, and keeps the models on disk.

Each training interval: ``train``, then ``checkpoint``. Both may run in a thread of their own,
one at a time; ``prediction``, ``by_predictor`` and ``training`` answer from the last training and
may be asked by anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from koord_model.demand import Amounts, Demand, amounts
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import kube_qos
from koord_prediction.amount import ResourceAmount
from koord_prediction.checkpoint import Checkpoint, decode, encode
from koord_prediction.elapsed import ElapsedTime
from koord_prediction.histogram import CPU, MEMORY
from koord_prediction.models import Models, PodUse, samples
from koord_prediction.peak import PeakPolicy, PodDemand, PredictedPeak, Prediction, predict
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.whole_file import PART, write_whole

from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.prediction.training_result import TrainingResult
from koordlet.states_informer.state.pod_inventory import PodRecord

ANNOTATION_RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"

_ENDED = ("Succeeded", "Failed")
_MISSING_SECONDS = 300.0
"""Time for which a pod may be missing from the list before its model is forgotten."""
_SET_ASIDE = ".corrupt"
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Training and storage of models; all but ``per_step`` (models a step) in seconds."""

    training_interval: float = 60.0
    cpu_halflife: float = 43200.0
    memory_halflife: float = 86400.0
    expiration: float = 1800.0
    checkpoint_interval: float = 600.0
    per_step: int = 12
    rules: PeakPolicy = field(default_factory=PeakPolicy)


class CheckpointDirectory:
    """One file a model, named as its UID; written whole or not at all.

    ``on_warning`` hears of each problem in one line.
    """

    def __init__(self, path: str, on_warning: Callable[[str], None]) -> None:
        self._path = Path(path)
        self._on_warning = on_warning
        self._problems = LogDeduplicator()

    def load(self) -> list[Checkpoint]:
        """The models in the directory.

        A file that holds none is set aside as "….corrupt", until the next start.
        """
        found = []
        for file in self._files():
            half = file.name.startswith(".") and file.name.endswith(PART)
            if half or file.name.endswith(_SET_ASIDE):
                self._remove(file)
                continue
            try:
                checkpoint = decode(file.read_bytes(), CPU.count, MEMORY.count)
            except OSError as error:
                self._on_warning(f"{file}: {error.strerror} (that model is learnt anew)")
            except ValueError as error:
                self.set_aside(file.name, str(error))
            else:
                # The name counts: it is what the file is removed by.
                found.append(
                    Checkpoint(file.name, checkpoint.cpu, checkpoint.memory, checkpoint.updated)
                )
        return found

    def set_aside(self, uid: str, reason: str) -> None:
        """Keep a file that is of no use under another name, for people to look at."""
        file = self._path / uid
        aside = file.with_name(f"{file.name}{_SET_ASIDE}")
        try:
            file.replace(aside)
        except OSError as error:
            self._on_warning(f"{file}: {reason}; {error.strerror} (that model is learnt anew)")
        else:
            self._on_warning(
                f"{file}: {reason} (set aside as {aside.name}; that model is learnt anew)"
            )

    def save(self, checkpoint: Checkpoint) -> bool:
        """Write a model; says once what is wrong, until it works again."""
        file = self._path / checkpoint.uid
        try:
            write_whole(file, encode(checkpoint))
        except OSError as error:
            if self._problems.is_new(error.strerror):
                self._on_warning(f"{file}: {error.strerror} (models are not kept over a restart)")
            return False
        self._problems.clear()
        return True

    def remove(self, uid: str) -> None:
        """Remove a model's file, if there is one."""
        self._remove(self._path / uid)

    def _files(self) -> list[Path]:
        try:
            return sorted(file for file in self._path.iterdir() if file.is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            self._on_warning(f"{self._path}: {error.strerror} (all models are learnt anew)")
            return []

    def _remove(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            self._on_warning(f"{file}: {error.strerror} (not removed)")


class Predictor:
    """The models of this node.

    ``pods`` gives those that run; ``allocatable`` what the node has for pods
    (``node_allocatable``), ``None`` while nobody knows.
    """

    def __init__(
        self,
        learning: TrainingSettings,
        cache: MetricCache,
        directory: CheckpointDirectory,
        pods: Callable[[], tuple[PodRecord, ...]],
        allocatable: Callable[[], ResourceAmount | None],
    ) -> None:
        self._learning = learning
        self._cache = cache
        self._directory = directory
        self._pods = pods
        self._allocatable = allocatable
        self._models = Models(learning.cpu_halflife, learning.memory_halflife, learning.expiration)
        self._saved: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._elapsed = ElapsedTime(learning.expiration + 2 * learning.training_interval)
        self._prediction = Prediction()
        self._training = TrainingResult()

    def load(self, now: float) -> int:
        """Take over the models on disk, once, before the first training; says how many.

        Models of pods that are not there any more go, with their files, when nobody has
        trained them for the expiration: at a start the list of pods may still lack.
        """
        known = self._directory.load()
        at = self._elapsed.at(now)
        for checkpoint in known:
            self._models.restore(checkpoint, at)
        self._training = TrainingResult(models=self._models.results())
        return len(known)

    def train(self, now: float) -> None:
        """Learn from the last interval, forget who is gone, and predict anew.

        ``now`` is seconds since the epoch; what a clock jumps is no time that has passed.
        """
        records = self._pods()
        window = TimeWindow(now - self._learning.training_interval, now)
        used = self._used("pod", window)
        uses = [
            PodUse(record.pod.uid, _priority(record), used.get((record.pod.uid,)))
            for record in records
            if _is_file_name(record.pod.uid)
        ]
        at = self._elapsed.at(now)
        self._models.train(samples(uses, self._used("node", window).get(())), at)
        for uid in self._models.forget(at, self._gone({use.uid for use in uses}, at)):
            self._saved.pop(uid, None)
            self._directory.remove(uid)
        found = self._predict(records, now)
        self._training = TrainingResult(now, self._models.results(), frozenset(found.cold))
        self._prediction = found

    def checkpoint(self, now: float, *, everything: bool = False) -> int:
        """Write the models that are due, a few a step, or all of them at the end; says how many."""
        at = self._elapsed.at(now)
        due = sorted(self._models.uids(), key=lambda uid: self._saved.get(uid, _NEVER))
        if not everything:
            limit = at - self._learning.checkpoint_interval
            due = [uid for uid in due if self._saved.get(uid, _NEVER) <= limit]
            due = due[: self._learning.per_step]
        written = 0
        for uid in due:
            # One that could not be written waits its turn like the others.
            self._saved[uid] = at
            written += self._directory.save(self._models.checkpoint(uid, self._elapsed.ahead))
        return written

    @property
    def prediction(self) -> Prediction:
        """Last prediction, and its predictor."""
        return self._prediction

    @property
    def training(self) -> TrainingResult:
        """Models' percentiles after the last training, or when they were loaded."""
        return self._training

    def by_predictor(self) -> dict[str, PredictedPeak]:
        """Return each predictor's last result, by Koordinator's names."""
        last = self._prediction
        named = {
            "podReclaimablePredictor": last.by_pod,
            "priorityReclaimablePredictor": last.by_priority,
            "minPredictor": last.prod,
        }
        return {name: said for name, said in named.items() if said is not None}

    def _gone(self, present: set[str], at: float) -> list[str]:
        """Pods of this run's lists that are in none any more."""
        self._seen.update(dict.fromkeys(present, at))
        gone = [uid for uid, seen in self._seen.items() if at - seen > _MISSING_SECONDS]
        for uid in gone:
            del self._seen[uid]
        return gone

    def _predict(self, records: tuple[PodRecord, ...], now: float) -> Prediction:
        rules = self._learning.rules
        peaks = self._models.percentiles(rules.cpu_percentile, rules.memory_percentile)
        # A pod that is in no list yet is seconds old, and its requests are not known.
        demands = [
            _demand(record, record.demand) for record in records if record.demand is not None
        ]
        return predict(demands, peaks, self._allocatable(), now, rules)

    def _used(self, who: str, window: TimeWindow) -> dict[tuple[str, ...], ResourceAmount]:
        """P90 of CPU and memory by labels, where both were measured."""
        cpu = self._p90(f"{who}_cpu_usage", window)
        memory = self._p90(f"{who}_memory_usage", window)
        return {
            labels: ResourceAmount(cpu[labels], memory[labels]) for labels in cpu.keys() & memory
        }

    def _p90(self, kind: str, window: TimeWindow) -> dict[tuple[str, ...], float]:
        found = self._cache.aggregate(kind, window, (Aggregation.P90,))
        values = found.values[Aggregation.P90].tolist() if found.series else []
        return {series.labels: value for series, value in zip(found.series, values, strict=True)}


def node_allocatable(
    annotations: Mapping[str, str], allocatable: Amounts | None
) -> tuple[ResourceAmount | None, str]:
    """Return the node's real amounts for pods, and a line on an ignored part ("" for none).

    ``allocatable`` is that of the Node's status, which may be amplified; the annotation
    that holds it as it was before comes first, resource by resource.
    """
    whole, ignored = dict(allocatable or {}), ""
    text = annotations.get(ANNOTATION_RAW_ALLOCATABLE)
    if text is not None:
        try:
            raw = msgspec.json.decode(text, type=dict[str, str | int | float])
        except msgspec.MsgspecError as error:
            ignored = f"annotation {ANNOTATION_RAW_ALLOCATABLE}: {error} (ignored)"
        else:
            whole |= amounts(raw)
    if "cpu" not in whole or "memory" not in whole:
        return None, ignored
    return _amount(whole), ignored


def _demand(record: PodRecord, demand: Demand) -> PodDemand:
    ending = demand.terminating or demand.phase in _ENDED
    request = _amount(demand.requests)
    return PodDemand(record.pod.uid, _priority(record), request, demand.started, ending)


def _priority(record: PodRecord) -> PriorityClass:
    priority = record.demand.priority if record.demand else None
    return priority_class_or_default(
        record.pod.labels, priority, kube_qos(record.pod.cgroup_parent)
    )


def _amount(found: Amounts) -> ResourceAmount:
    return ResourceAmount(found.get("cpu", 0) / 1000, float(found.get("memory", 0)))


def _is_file_name(uid: str) -> bool:
    """A UID names a checkpoint; one that leads elsewhere, or that is ours, has no model."""
    return bool(uid) and "/" not in uid and not uid.startswith((".", "__node"))
