"""Probes vendors, each in a thread of its own: one whose tool or driver hangs hides no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from koord_host.devices.pci import PCIFunction

from koord_devices.contract import AnyVendor, NodeAccess, ToolError
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.document import document, encode
from koord_devices.core.inventory import VendorState, answered


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of probing a vendor: its accelerators, or the reason for none.

    ``seconds`` is how long it took, ``at`` the wall clock when it began.
    """

    vendor: str
    accelerators: tuple[Accelerator, ...] = ()
    reason: str = ""
    error: str = ""
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Wake:
    """Something happened, for which the devices are looked at again."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The process was asked to end."""


Event = Answer | Wake | Stop


class Prober:
    """Starts probes; their answers come through ``events``."""

    def __init__(
        self,
        vendors: Mapping[str, AnyVendor],
        make_node: Callable[[], NodeAccess],
        events: SimpleQueue[Event],
        steady: Callable[[], float],
    ) -> None:
        self._vendors = vendors
        self._make_node = make_node
        self._events = events
        self._steady = steady
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def start(self, name: str, functions: Sequence[PCIFunction]) -> bool:
        """Probe a vendor, unless its last probe still hangs; whether it was started.

        Where no thread can be started, that is its answer.
        """
        with self._lock:
            if name in self._busy:
                return False
            thread = threading.Thread(
                target=self._probe, args=(name, functions), name=f"probe {name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                at = self._make_node().wall
                self._events.put(Answer(name, (), "ToolFailed", str(error), at=at))
                return True
            self._busy.add(name)
        return True

    def _probe(self, name: str, functions: Sequence[PCIFunction]) -> None:
        node, began = self._make_node(), self._steady()
        found: tuple[Accelerator, ...] = ()
        reason = error = ""
        try:
            answer = tuple(self._vendors[name].probe(node, functions))
            # What cannot be written does not count, and must not stop the others' answers.
            encode(document({name: answered(VendorState(), answer, node.wall)}, None))
            found = answer
        except ToolError as failure:
            reason, error = failure.reason, str(failure)
        except Exception as failure:
            reason, error = "OutputNotUnderstood", f"{type(failure).__name__}: {failure}"
        with self._lock:
            self._busy.discard(name)
        line = " ".join(error.split())
        self._events.put(Answer(name, found, reason, line, self._steady() - began, node.wall))
