"""What the log says of plugins and of the node: a defect is one line, not one every round."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from koord_hooks.runner import Outcome
from koord_hooks.stages import Stage
from koord_host.outcomes import Outcome as Wrote
from koord_host.outcomes import Result, Round
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_service.logs import EventLog, get_log

_log = get_log("koordlet.hooks")

_node_log = get_log("koordlet.node")

_MOST = 4096
_STRANGER = "changed by somebody else"
_MOST_STRANGERS = 3
"""In one round: more have one cause, such as systemd that was told to read its units again."""


class Told:
    """The latest things that were said, bounded in number; for any thread."""

    def __init__(self) -> None:
        self._said: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def first_time(self, *words: Hashable) -> bool:
        """Whether this was not said lately; from now on it was."""
        with self._lock:
            if words in self._said:
                self._said.move_to_end(words)
                return False
            self._said[words] = None
            if len(self._said) > _MOST:
                self._said.popitem(last=False)
            return True


def subject_fields(subject: Pod | Container) -> dict[str, str]:
    """Who it is about, as fields of a log line."""
    if isinstance(subject, Pod):
        return {"pod": subject.full_name}
    return {"pod": subject.pod.full_name, "container": subject.name}


def tell_answer(
    log: EventLog,
    told: Told,
    stage: Stage,
    subject: Pod | Container,
    outcome: Outcome[Patch],
    *,
    changed: bool,
) -> None:
    """What was wrong with a call about a pod or container, and what the answer changes."""
    fields = {"stage": stage.value, **subject_fields(subject)}
    tell_problems(told, fields, outcome)
    if changed:
        log.info("changed", **fields, why=outcome.patch.why)


def tell_problems(
    told: Told, fields: Mapping[str, str], outcome: Outcome[Patch] | Outcome[NodePatch]
) -> None:
    """One line for each plugin that failed, each conflict, and each field ignored."""
    pod = fields.get("pod", "")
    for name, error in outcome.failures:
        if told.first_time(pod, name, str(error)):
            _log.error("hook plugin failed", **fields, plugin=name, reason=reason_of(error))
    for conflict in outcome.conflicts:
        if told.first_time(pod, str(conflict)):
            _log.warning("plugins disagree, field left alone", **fields, conflict=str(conflict))
    for line in outcome.patch.ignored:
        # What is said of a pod at its start is said of the node's wishes too.
        if told.first_time("" if pod in line else pod, line):
            _log.warning("field ignored", **fields, reason=line)


def reason_of(error: Exception) -> str:
    """A plugin says ValueError in words for people; of anything else the kind matters too."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def reason_of_os_error(error: OSError) -> str:
    """What the system refused, and of which file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def tell_round(told: Told, done: Round, troubles: Iterable[str]) -> None:
    """One line for what was written, and one for each target that is new trouble."""
    for line in troubles:
        if told.first_time(line):
            _node_log.warning("tasks not in line", reason=line)
    written = sum(one.outcome is Wrote.WRITTEN for one in done.results)
    if written:
        _node_log.info("levelled", written=written)
    for conflict in done.conflicts:
        _node_log.warning("owners disagree", conflict=str(conflict))
    strangers: dict[str, list[Result]] = {}
    for result in done.news:
        if result.outcome is Wrote.WRITTEN and result.reason.startswith(_STRANGER):
            strangers.setdefault(result.reason, []).append(result)
        else:
            _tell_result(result)
    for reason, results in strangers.items():
        _tell_strangers(reason, results)


def _tell_strangers(reason: str, results: Sequence[Result]) -> None:
    """A line for each value that somebody else had changed, or one for very many."""
    if len(results) > _MOST_STRANGERS:
        first = results[0].target
        knobs = ", ".join(sorted({one.target.knob for one in results}))
        example = f"{first.knob} of {first.place}"
        _node_log.warning(
            _STRANGER, values=len(results), knobs=knobs, example=example, reason=reason
        )
        return
    for result in results:
        _node_log.warning(_STRANGER, value=result.old, **_fields(result))


def _fields(result: Result) -> dict[str, str | None]:
    return {
        "group": result.target.place,
        "knob": result.target.knob,
        "pod": result.pod or None,
        "reason": result.reason,
    }


def _tell_result(result: Result) -> None:
    """Of what was written without ado the journal has it."""
    fields = _fields(result)
    if result.outcome in (Wrote.REFUSED, Wrote.INVALID, Wrote.OVERRIDDEN):
        _node_log.warning("not written", value=result.new, **fields)
    elif result.outcome is Wrote.YIELDED:
        _node_log.warning("left to somebody else", value=result.old, **fields)
    elif result.outcome is Wrote.UNSUPPORTED:
        _node_log.info("no such knob", **fields)
