"""Recording of a scheduler: all of its input, in order, and its decisions. No IO.

A recording is lines of JSON: a header, then an array for each input or decision, by which
``Replay`` makes the same decisions again. Of objects it has what the scheduler reads of them, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from koord_model.version import VERSION

from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderFailure,
    ExtenderQuestion,
    Placement,
    PreemptionPlan,
)
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.wake_budget import UNLIMITED, CountingBudget, WakeBudget
from koord_scheduler.objects.annotations import decode_hook
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState

FORMAT = 1
"""Of recordings; increased when older programs cannot replay them."""
_DECISIVE = (
    "apiVersion",
    "kind",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
)


class RecordingHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first line. ``configuration`` is a KubeSchedulerConfiguration, {} for the default.

    ``started`` is in seconds since the epoch, ``monotonic`` the same moment as inputs have it.
    """

    koord_scheduler_recording: int
    started: float
    monotonic: float
    tie_break_seed: int = 0
    configuration: dict[str, Any] = {}
    version: str = VERSION
    feature_gates: tuple[str, ...] = ()


class DecisionOutcome(msgspec.Struct, frozen=True, array_like=True):
    """A decision by what is compared: ``result`` is placed, unschedulable, preempts or error.

    ``node`` is "" for pods without one. ``victims`` are the keys of pods.
    """

    pod: str
    uid: str
    result: str
    node: str = ""
    victims: tuple[str, ...] = ()


class _Input(msgspec.Struct, frozen=True, array_like=True):
    """``at`` is in monotonic seconds of the machine where it was recorded."""

    at: float


class PutInput(_Input, frozen=True, tag="put"):
    """An object is there, or has changed."""

    kind: str
    key: str
    object: msgspec.Raw


class RemoveInput(_Input, frozen=True, tag="remove"):
    """An object is gone."""

    kind: str
    key: str


class TickInput(_Input, frozen=True, tag="tick"):
    """Pods whose back-off has ended come back; ``epoch`` is ``at`` in seconds since the epoch."""

    epoch: float = 0.0


class WakeInput(_Input, frozen=True, tag="wake"):
    """Parked classes were looked at, so many, and so many tried again; ``None``: all there were."""

    looks: int | None = None
    retries: int = 0


class ForgetInput(_Input, frozen=True, tag="forget"):
    """An assumed pod did not get its node."""

    key: str


class DecideInput(_Input, frozen=True, tag="decide"):
    """The next decision; ``None`` if no pod was next."""

    outcome: DecisionOutcome | None = None


class EndInput(_Input, frozen=True, tag="end"):
    """The recording ends; ``reason`` is for people."""

    reason: str


RecordedInput = (
    PutInput | RemoveInput | TickInput | WakeInput | ForgetInput | DecideInput | EndInput
)
Record = Callable[[RecordedInput], None]

_DECODE = msgspec.json.Decoder(RecordedInput).decode
_DECODE_HEADER = msgspec.json.Decoder(RecordingHeader).decode
_ENCODE = msgspec.json.Encoder().encode


def decisive_configuration(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration's part about decisions: without that about the API, for example."""
    return {name: document[name] for name in _DECISIVE if name in document}


def decided_alone(decision: Decision | ExtenderQuestion | None) -> Decision | None:
    """The decision of a scheduler without extenders, which asks nothing."""
    if isinstance(decision, ExtenderQuestion):
        raise TypeError("a recorded scheduler has no extenders")
    return decision


def outcome(decision: Decision | None) -> DecisionOutcome | None:
    """Return the recorded form of a decision."""
    if decision is None:
        return None
    pod = decision.pod
    if isinstance(decision, Placement):
        return DecisionOutcome(pod.key, pod.uid, "placed", decision.node)
    if isinstance(decision, PreemptionPlan):
        preemption = decision.preemption
        victims = tuple(victim.key for victim in preemption.victims)
        return DecisionOutcome(pod.key, pod.uid, "preempts", preemption.node, victims)
    is_error = isinstance(decision, ExtenderFailure) or bool(decision.defect)
    return DecisionOutcome(pod.key, pod.uid, "error" if is_error else "unschedulable")


class RecordingScheduler(Scheduler):
    """A scheduler without extenders of which ``record`` hears all that decisions depend on.

    Objects it has from kinds that are ``recorded_kind``s.
    """

    def __init__(
        self,
        profiles: Iterable[Profile],
        record: Record,
        *,
        nodes: ClusterState,
        queue: SchedulingQueue,
    ) -> None:
        super().__init__(profiles, nodes=nodes, queue=queue)
        self._record = record

    def tick(self, now: float, epoch: float = 0.0) -> float | None:
        """As the scheduler does."""
        self._record(TickInput(now, epoch))
        return super().tick(now, epoch)

    def decide(self, now: float) -> Decision | None:
        """As the scheduler does."""
        decision = decided_alone(super().decide(now))
        self._record(DecideInput(now, outcome(decision)))
        return decision

    def wake(self, now: float, budget: WakeBudget = UNLIMITED) -> int:
        """As the scheduler does."""
        counting = CountingBudget(budget)
        woken = super().wake(now, counting)
        self._record(WakeInput(now, counting.looks, counting.retries))
        return woken

    def forget(self, pod: QueuedPod, now: float) -> None:
        """As the scheduler does."""
        if self.assumed.get(pod.key) is pod:
            self._record(ForgetInput(now, pod.key))
        super().forget(pod, now)


def recorded_kind(kind: ClusterKind, record: Record, monotonic: Callable[[], float]) -> ClusterKind:
    """A kind of which ``record`` hears; what is ``read`` has to be ``put`` before the next is."""
    decode = msgspec.json.Decoder(kind.view, dec_hook=decode_hook).decode
    name = kind.name
    last = b""

    def read(raw: bytes) -> Any:
        nonlocal last
        last = raw
        return kind.read(raw)

    def put(key: str, value: Any) -> None:
        view = msgspec.Raw(_ENCODE(decode(last)))
        record(PutInput(monotonic(), name, key, view))
        kind.put(key, value)

    def remove(key: str) -> None:
        record(RemoveInput(monotonic(), name, key))
        kind.remove(key)

    return kind._replace(read=read, put=put, remove=remove)


def recording_line(recording_header: RecordingHeader | RecordedInput) -> bytes:
    """A line of a recording, without its end."""
    return _ENCODE(recording_header)


def read_header(lines: Iterator[bytes]) -> RecordingHeader:
    """The header, with which a recording begins.

    Raises:
        ValueError: it is not a recording, or one of a newer program.
    """
    try:
        header = _DECODE_HEADER(next(lines, b""))
    except (msgspec.MsgspecError, UnicodeError):
        raise ValueError("is not a recording of koord-scheduler") from None
    if header.koord_scheduler_recording > FORMAT:
        raise ValueError(
            f"was recorded by koord-scheduler {header.version}, which is newer than this program "
            f"({VERSION}); use koordctl of that version"
        )
    return header


def read_inputs(lines: Iterable[bytes]) -> Iterator[RecordedInput]:
    """Read the inputs after the header; a last line that is torn is left out.

    Raises:
        ValueError: a line in between is not valid.
    """
    failure = ""
    for number, line in enumerate(lines, start=2):
        if failure:
            raise ValueError(failure)
        try:
            yield _DECODE(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            failure = f"line {number} is not valid: {error}"
