"""A recording as plain data: what was decided then, and what is decided now. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import asdict

from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.document import parse_document
from koord_scheduler.config.scheduler_config import default_scheduler_config, scheduler_config
from koord_scheduler.framework.decisions import Refusal
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.recording import (
    DecisionOutcome,
    EndInput,
    RecordedInput,
    RecordingHeader,
    read_header,
    read_inputs,
)
from koord_scheduler.framework.replay import Replay, ReplayedDecision
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.program.added_plugins import added_plugins
from koord_scheduler.program.explanation import (
    Document,
    Now,
    explain_choice,
    explain_queued,
    unexplained,
)
from koord_scheduler.program.gates import gates_of
from koord_scheduler.program.make_scheduler import make_scheduler


def replay(open_lines: Callable[[], Iterable[bytes]], config: str = "", why: str = "") -> Document:
    """All decisions of a recording, each with what is decided now in its place.

    ``open_lines`` may be called twice. ``config`` is the text of a KubeSchedulerConfiguration that
    counts in place of the recorded one. The decisions about the pod ``why`` (namespace/name) are
    explained, as of their moment; without it, the first one that differs.

    Raises:
        ValueError: it is not a recording, or the configuration is not valid.
    """
    found = _Pass(open_lines(), config, why).document()
    different = next((one for one in found["decisions"] if not one["same"]), None)
    if different is not None and not why:
        pod = (different["replayed"] or different["recorded"])["pod"]
        again = _Pass(open_lines(), config, pod).document()
        number = different["number"]
        return {
            **found,
            "explained": [one for one in again["explained"] if one["number"] == number],
        }
    return found


class _Pass:
    """All decisions, with those about the pod ``why`` explained."""

    def __init__(self, lines: Iterable[bytes], config: str, why: str) -> None:
        rest = iter(lines)
        self._header = read_header(rest)
        self._inputs = read_inputs(rest)
        self._scheduler = _scheduler(self._header, config)
        self._why = why
        self._choice: Document = {}
        self._at = self._header.monotonic
        self._end = ""

    def document(self) -> Document:
        decisions, explained = [], []
        replayed = Replay(self._scheduler, self._before).run(self._until_end())
        for number, one in enumerate(replayed, start=1):
            now = Now(one.at, self._header.started + one.at - self._header.monotonic)
            if self._why and (about := self._explanation(one, now)):
                explained.append({"number": number, **about})
            decisions.append(_decision(number, one, now))
        return {
            "version": self._header.version,
            "started": self._header.started,
            "seconds": self._at - self._header.monotonic,
            "end": self._end,
            "decisions": decisions,
            "moved": _moved(decisions),
            "explained": explained,
        }

    def _until_end(self) -> Iterator[RecordedInput]:
        for one in self._inputs:
            self._at = one.at
            if isinstance(one, EndInput):
                self._end = one.reason
            yield one

    def _before(self, pod: QueuedPod, then: DecisionOutcome | None) -> None:
        """After the decision the room is taken."""
        if pod.key == self._why:
            also = then.node if then is not None and then.pod == pod.key else ""
            self._choice = explain_choice(self._scheduler, pod, also)

    def _explanation(self, replayed_decision: ReplayedDecision, now: Now) -> Document | None:
        """Explain the pod after a decision; None if the decision was not about it."""
        decision, mine, key = replayed_decision.decision, replayed_decision.replayed, self._why
        if mine is not None and mine.pod == key and mine.result == "placed":
            return {"pod": key, "state": "placed", "node": mine.node, **self._choice}
        pod = self._scheduler.queue.pods.get(key)
        is_recorded = (
            replayed_decision.recorded is not None and replayed_decision.recorded.pod == key
        )
        if isinstance(decision, Refusal) and pod is not None:
            is_refused = decision.pod.class_key == pod.class_key
            if is_refused and decision.defect:
                return unexplained(key, "error", f"a plugin failed: {decision.defect}")
        else:
            is_refused = mine is not None and mine.pod == key
        if not is_refused and not is_recorded:
            return None
        if pod is None:
            return unexplained(key, "not waiting", f"{key} did not wait at that moment")
        return explain_queued(self._scheduler, pod, now)


def _scheduler(header: RecordingHeader, config: str) -> Scheduler:
    gates, _ = gates_of(header.feature_gates)
    try:
        document = parse_document(config) if config else header.configuration
        if not document:
            return make_scheduler(default_scheduler_config(), header.tie_break_seed, gates=gates)
        made = scheduler_config(document, added_plugins())
    except SchedulerConfigError as error:
        raise ValueError(f"{'--config' if config else 'its configuration'}: {error}") from None
    return make_scheduler(made, header.tie_break_seed, gates=gates)


def _decision(number: int, replayed_decision: ReplayedDecision, now: Now) -> Document:
    recorded, replayed = replayed_decision.recorded, replayed_decision.replayed
    return {
        "number": number,
        "at": now.epoch,
        "same": replayed_decision.is_same,
        "recorded": asdict(recorded) if recorded is not None else None,
        "replayed": asdict(replayed) if replayed is not None else None,
    }


def _moved(decisions: Sequence[Document]) -> list[Document]:
    """The pods that have another node in the end than they had."""
    then, now = _nodes(decisions, "recorded"), _nodes(decisions, "replayed")
    return [
        {"pod": pod, "recorded": then.get((pod, uid), ""), "replayed": now.get((pod, uid), "")}
        for pod, uid in dict.fromkeys([*then, *now])
        if then.get((pod, uid)) != now.get((pod, uid))
    ]


def _nodes(decisions: Sequence[Document], side: str) -> dict[tuple[str, str], str]:
    made = (decision[side] for decision in decisions if decision[side] is not None)
    return {(one["pod"], one["uid"]): one["node"] for one in made if one["result"] == "placed"}
