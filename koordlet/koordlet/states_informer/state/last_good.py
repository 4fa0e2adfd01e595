"""Last good value of a file that is read again and again. No IO of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LastGood(Generic[T]):
    """A value that a failed or half-written read does not change.

    ``name`` is what is read, ``on_warning`` hears one line for each new reason why it is not, and
    ``on_recovery`` one when it is again.
    """

    def __init__(
        self,
        name: str,
        on_warning: Callable[[str], None],
        on_recovery: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._on_warning = on_warning
        self._on_recovery = on_recovery
        self._reason = ""
        self.value: T | None = None
        """``None`` before the first good read."""

    def refresh(self, read: Callable[[], T]) -> T | None:
        """The value that is read now, or else the last good one."""
        try:
            self.value = read()
        except (OSError, ValueError) as error:
            self._report(getattr(error, "strerror", None) or str(error))
        else:
            if self._reason:
                self._on_recovery(self._name)
            self._reason = ""
        return self.value

    def _report(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            stays = "not known yet" if self.value is None else "the last good state stays in force"
            self._on_warning(f"{self._name}: {reason} ({stays})")
