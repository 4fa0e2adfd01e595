"""Log lines about plugins and the node: a defect is one line, not one every round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.planning.outcomes import Outcome as Wrote
from koord_host.planning.outcomes import Result, Round
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import EventLog, get_log

_log = get_log("koordlet.hooks")

_node_log = get_log("koordlet.node")

_DRIFT = "changed by somebody else"
_MOST_DRIFT_LINES = 3
"""In one round: more have one cause, such as a reload of systemd's units."""


def subject_fields(subject: Pod | Container) -> dict[str, str]:
    """Return the fields of a log line that name the subject."""
    if isinstance(subject, Pod):
        return {"pod": subject.full_name}
    return {"pod": subject.pod.full_name, "container": subject.name}


def log_answer(
    log: EventLog,
    deduplicator: LogDeduplicator,
    stage: Stage,
    subject: Pod | Container,
    outcome: HookResult[Patch],
    *,
    changed: bool,
) -> None:
    """Log the problems of a call about a pod or container, and the changes of its answer."""
    fields = {"stage": stage.value, **subject_fields(subject)}
    log_problems(deduplicator, fields, outcome)
    if changed:
        log.info("changed", **fields, why=outcome.patch.why)


def log_problems(
    deduplicator: LogDeduplicator,
    fields: Mapping[str, str],
    outcome: HookResult[Patch] | HookResult[NodePatch],
) -> None:
    """One line for each plugin that failed, each conflict, and each field ignored."""
    pod = fields.get("pod", "")
    for name, error in outcome.failures:
        if deduplicator.is_new(pod, name, str(error)):
            _log.error("hook plugin failed", **fields, plugin=name, reason=describe_error(error))
    for conflict in outcome.conflicts:
        if deduplicator.is_new(pod, str(conflict)):
            _log.warning("plugins conflict, field not changed", **fields, conflict=str(conflict))
    for line in outcome.patch.ignored:
        # The lines of a pod's start also cover the node's desired values.
        if deduplicator.is_new("" if pod in line else pod, line):
            _log.warning("field ignored", **fields, reason=line)


def log_round(deduplicator: LogDeduplicator, done: Round, problems: Iterable[str]) -> None:
    """One line for what was written, and one for each target that newly failed."""
    for line in problems:
        if deduplicator.is_new(line):
            _node_log.warning("tasks not reconciled", reason=line)
    written = sum(result.outcome is Wrote.WRITTEN for result in done.results)
    if written:
        _node_log.info("reconciled", files=written)
    for conflict in done.conflicts:
        _node_log.warning("conflicting desired values", conflict=str(conflict))
    drift: dict[str, list[Result]] = {}
    for result in done.news:
        if result.outcome is Wrote.WRITTEN and result.reason.startswith(_DRIFT):
            drift.setdefault(result.reason, []).append(result)
        else:
            _log_result(result)
    for reason, results in drift.items():
        _log_drift(reason, results)


def _log_drift(reason: str, results: Sequence[Result]) -> None:
    """A line for each value that somebody else had changed, or one for very many."""
    if len(results) > _MOST_DRIFT_LINES:
        first = results[0].target
        knobs = ", ".join(sorted({result.target.knob for result in results}))
        example = f"{first.knob} of {first.place}"
        _node_log.warning(_DRIFT, values=len(results), knobs=knobs, example=example, reason=reason)
        return
    for result in results:
        _node_log.warning(_DRIFT, value=result.old, **_fields(result))


def _fields(result: Result) -> dict[str, str | None]:
    return {
        "group": result.target.place,
        "knob": result.target.knob,
        "pod": result.pod or None,
        "reason": result.reason,
    }


def _log_result(result: Result) -> None:
    """Log a result, unless it was written as usual: the journal has that."""
    fields = _fields(result)
    if result.outcome in (Wrote.REFUSED, Wrote.INVALID, Wrote.OVERRIDDEN):
        _node_log.warning("not written", value=result.new, **fields)
    elif result.outcome is Wrote.YIELDED:
        _node_log.warning("left as another process set it", value=result.old, **fields)
    elif result.outcome is Wrote.WAITING:
        _node_log.info("set by the kubelet", value=result.old, **fields)
    elif result.outcome is Wrote.UNSUPPORTED:
        _node_log.info("knob not supported by this kernel", **fields)
