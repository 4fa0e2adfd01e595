"""State of each vendor's accelerators: its latest answer, completed by earlier ones.

- An accelerator that was there and is not in an answer stays, and is not healthy (``NotFound``):
  pods may hold it.
- Of one that is out of order its amounts stay, should its tool not know them any more.
- A vendor whose tool fails or hangs keeps its accelerators, and none is healthy.
- Of a vendor that never answered nothing is known, so nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from koord_devices.core.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class VendorState:
    """A vendor's accelerators, when its tool last answered, and what is wrong now.

    ``unnamed`` are lines about devices that its tool lists and cannot name.
    """

    accelerators: tuple[Accelerator, ...] = ()
    answered_at: float = 0.0
    reason: str = ""
    error: str = ""
    unnamed: tuple[str, ...] = ()


def answered(state: VendorState, found: Iterable[Accelerator], at: float) -> VendorState:
    """The state after an answer; ``at`` is the wall clock, seconds since the epoch."""
    named: dict[str, Accelerator] = {}
    unnamed: list[str] = []
    for accelerator in found:
        known = (
            accelerator if accelerator.device.id else _remembered(accelerator, state.accelerators)
        )
        if known is not None:
            known = _completed(known, state.accelerators)
        if known is None:
            device = accelerator.device
            where = device.bus or f"minor {device.minor}"
            unnamed.append(
                f"{accelerator.vendor} {where}: {device.message or 'it has no identifier'}"
            )
        else:
            named.setdefault(known.device.id, known)
    for accelerator in state.accelerators:
        if accelerator.device.id not in named:
            line = "its vendor's tool lists it no longer"
            named[accelerator.device.id] = accelerator.unhealthy("NotFound", line)
    return VendorState(_in_order(named.values()), at, unnamed=tuple(unnamed))


def failed(state: VendorState, reason: str, error: str) -> VendorState:
    """The state after a failure: what was known stays, and is not healthy."""
    return replace(
        state,
        accelerators=tuple(
            accelerator.unhealthy(reason, error)
            if accelerator.device.healthy or accelerator.device.reason == state.reason
            else accelerator
            for accelerator in state.accelerators
        ),
        reason=reason,
        error=error,
    )


def _remembered(accelerator: Accelerator, known: Sequence[Accelerator]) -> Accelerator | None:
    """A device without identifier as it was known, by its place, with what is wrong now."""
    for before in known:
        same = (
            before.device.bus == accelerator.device.bus
            if accelerator.device.bus
            else before.device.minor == accelerator.device.minor
        )
        if same:
            return before.unhealthy(accelerator.device.reason, accelerator.device.message)
    return None


def _completed(accelerator: Accelerator, known: Sequence[Accelerator]) -> Accelerator:
    """One that is out of order, with what its tool does not say of it any more."""
    if accelerator.device.healthy or all(accelerator.device.resources.values()):
        return accelerator
    for before in known:
        if before.device.id == accelerator.device.id:
            return before.unhealthy(accelerator.device.reason, accelerator.device.message)
    return accelerator


def _in_order(found: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    return tuple(
        sorted(found, key=lambda accelerator: (accelerator.device.minor, accelerator.device.id))
    )
