"""Nodes in quarantine, the kinds of pods that they are kept from, and their trials. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from koord_service.breaker import Breaker, BreakerState

from koord_scheduler.plugins.node_quarantine.settings import QuarantineSettings
from koord_scheduler.plugins.node_quarantine.verdict import Verdict
from koord_scheduler.plugins.node_quarantine.windows import Windows

MOST_PERCENT = 20
"""Of the nodes; as many as the manager taints for their conditions."""
GONE_SECONDS = 10.0
"""A pod may leave the lists of pods that have not failed before it is among those that have."""
_PRUNE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Ward:
    """A node in quarantine for a kind: its breaker, what put it there, and the pod that tries it.

    ``trial`` is the uid of that pod, since ``tried``; it has left its node since ``left``.
    """

    breaker: Breaker
    rejections: int
    of: int
    trial: str = ""
    ticket: int = 0
    tried: float = 0.0
    left: float | None = None

    def withdraw(self) -> None:
        """Let another pod try the node."""
        self.breaker.withdrawn(self.ticket)
        self.trial, self.left = "", None


class Quarantine:
    """Verdicts come at any time; what follows from them is decided in ``tick``.

    ``changed`` hears of each node and kind that pods may be bound to, or not, from now on, and
    ``said`` of nodes that go into quarantine or leave it, with a line about it. Times are seconds
    since the epoch.
    """

    def __init__(
        self,
        settings: QuarantineSettings,
        changed: Callable[[str, str], None],
        said: Callable[[str, str, bool], None],
        warn: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._changed, self._said, self._warn = changed, said, warn
        self._windows = Windows(settings.of)
        self._wards: dict[tuple[str, str], Ward] = {}
        self._suspects: dict[tuple[str, str], None] = {}
        self._acquitted = False
        self._pruned = self._looked = 0.0
        self.now = 0.0
        self.rejected = 0
        """Rejections so far."""
        self.wards: Mapping[tuple[str, str], Ward] = MappingProxyType(self._wards)

    def blocks(self, node: str, kind: str) -> bool:
        """True if no pod that requests the kind may go to a node now."""
        ward = self._wards.get((node, kind))
        return ward is not None and not ward.breaker.admits

    def note(self, verdict: Verdict) -> None:
        """A binding's verdict; each may come again and again."""
        if not self._windows.add(verdict):
            if not verdict.is_rejected:
                self._accepted(verdict)
            return
        self.rejected += 1
        if self._windows.fails_anywhere(verdict.owner):
            self._acquitted = True
        self._suspects[verdict.node, verdict.kind] = None
        for key, ward in self._tried_by(verdict.uid, verdict.node, verdict.kinds):
            ward.trial, ward.left = "", None
            ward.rejections, ward.of = self._windows.rejections(*key, self._since)
            ward.breaker.failed(self.now)
            self._say(key, ward)
            self._changed(*key)

    def _accepted(self, verdict: Verdict) -> None:
        for key, _ in self._tried_by(verdict.uid, verdict.node, verdict.kinds):
            self._release(key, verdict.at)

    def _tried_by(
        self, uid: str, node: str, kinds: Iterable[str]
    ) -> list[tuple[tuple[str, str], Ward]]:
        found = [((node, kind), self._wards.get((node, kind))) for kind in ("", *kinds)]
        return [(key, ward) for key, ward in found if ward is not None and ward.trial == uid]

    def placed(self, node: str, uid: str, kinds: Iterable[str]) -> None:
        """A pod is to run on a node: where that is to be tried, it is the trial."""
        for kind in ("", *kinds):
            ward = self._wards.get((node, kind))
            if ward is None:
                continue
            if ward.trial == uid:
                ward.left = None
            elif ward.breaker.state is BreakerState.HALF_OPEN and ward.breaker.admits:
                ward.trial, ward.ticket = uid, ward.breaker.admit()
                ward.tried, ward.left = self.now, None
                self._changed(node, kind)

    def unplaced(self, node: str, uid: str, kinds: Iterable[str]) -> None:
        """A pod is not there any more; a verdict may still come."""
        for _, ward in self._tried_by(uid, node, kinds):
            ward.left = self.now

    def known(self, node: str) -> None:
        """A node is there, of which bindings may be known already."""
        self._suspects.update(dict.fromkeys((node, kind) for kind in self._windows.kinds(node)))

    def forget(self, node: str) -> None:
        """A node is gone."""
        self._windows.forget(node)
        for key in [key for key in self._wards if key[0] == node]:
            del self._wards[key]

    def tick(self, now: float, nodes: Callable[[], int], is_node: Callable[[str], bool]) -> None:
        """It is this late; ``nodes`` is how many there are."""
        self.now = now
        if now - self._pruned >= _PRUNE_SECONDS:
            self._pruned = now
            self._windows.prune(self._since)
        if self._acquitted:
            self._acquitted = False
            self._acquit()
        if self._suspects:
            suspects = [key for key in self._suspects if is_node(key[0])]
            self._suspects.clear()
            for key in suspects:
                self._suspect(key, nodes)
        if not 0 <= now - self._looked < _LOOK_SECONDS:
            self._looked = now
            for key, ward in self._wards.items():
                self._try_again(key, ward)

    @property
    def _since(self) -> float:
        return self.now - self._settings.longest_pause

    def _suspect(self, key: tuple[str, str], nodes: Callable[[], int]) -> None:
        if key in self._wards:
            return
        rejections, of = self._windows.rejections(*key, self._since)
        if rejections < self._settings.rejections:
            return
        names = {node for node, _ in self._wards}
        most = max(1, nodes() * MOST_PERCENT // 100)
        if key[0] not in names and len(names) >= most:
            self._warn(
                f"NodeQuarantine: {most} nodes are in quarantine, {MOST_PERCENT} % of all; others "
                "that reject pods get more of them; look for what these nodes have in common"
            )
            return
        breaker = Breaker(self._settings.first_pause, self._settings.longest_pause)
        ward = self._wards[key] = Ward(breaker, rejections, of)
        breaker.failed(self.now)
        self._say(key, ward)
        self._changed(*key)

    def _acquit(self) -> None:
        """Release nodes that only pods which fail anywhere had put there."""
        for key in tuple(self._wards):
            rejections, _ = self._windows.rejections(*key, self._since)
            if rejections < min(self._settings.rejections, self._wards[key].rejections):
                self._release(key, 0.0)

    def _release(self, key: tuple[str, str], since: float) -> None:
        del self._wards[key]
        self._windows.clear(*key, since)
        self._said(key[0], f"pods that request {_what(key[1])} are bound to it again", False)
        self._changed(*key)

    def _try_again(self, key: tuple[str, str], ward: Ward) -> None:
        if ward.trial:
            is_gone = ward.left is not None and self.now - ward.left >= GONE_SECONDS
            if is_gone or self.now - ward.tried >= self._settings.longest_pause:
                ward.withdraw()
                self._changed(*key)
        elif ward.breaker.probe_due(self.now):
            ward.breaker.probe_answered()
            self._changed(*key)

    def _say(self, key: tuple[str, str], ward: Ward) -> None:
        said = f"rejected {self.note_on(*key)}; until then no pod that requests {_what(key[1])}"
        self._said(key[0], said, True)

    def note_on(self, node: str, kind: str) -> str:
        """The reason for a node's quarantine in numbers; "" without one."""
        ward = self._wards.get((node, kind))
        if ward is None:
            return ""
        last = f"{ward.rejections} of the last {ward.of} pods"
        if ward.trial:
            return f"{last}, one pod tries it now"
        return f"{last}, next try in {max(0.0, ward.breaker.probe_at - self.now):.0f} s"


def _what(kind: str) -> str:
    return kind or "anything"
