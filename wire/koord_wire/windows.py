"""The connection's flow-control window while bytes are held, added or dropped.

For a relay that changes nothing, both sides' windows agree by themselves. Here
a held message takes room on the client's side and none on the backend's, and a
released one the other way round. So two numbers are kept:

1. ``room``: what the backend still lets us send (its window).
2. ``debt``: what the client was allowed beyond that. With C the client's own
   view of its window, and Q the bytes it sent that wait here:
   ``debt = C + Q - room``.

The rules, from which both sides' windows are never exceeded:

3. The client may send C = room + debt - Q. More is a flow-control error.
4. Bytes that go on as they came change C and room alike: no change of debt.
5. Bytes taken off the stream (held, dropped, padding) lower debt.
6. Bytes we put on the stream raise debt.
7. Credit from the backend raises room and lowers debt.
8. Below zero, debt is what the client is owed: it is credited at once, and
   debt is zero again. So C + Q never exceeds room by more than what we put on,
   and C never exceeds a window that the backend itself announced.
"""

from __future__ import annotations

from koord_wire.frames import DEFAULT_WINDOW, FLOW_CONTROL_ERROR, ProtocolError


class ConnectionWindow:
    """The numbers of the module's text; all in bytes of DATA payload with padding."""

    __slots__ = ("debt", "queued", "room")

    def __init__(self) -> None:
        self.room = DEFAULT_WINDOW
        self.debt = 0
        self.queued = 0

    def arrived(self, size: int) -> None:
        """The client sent a DATA frame; what becomes of it is said next.

        Raises:
            ProtocolError: it was not allowed to.
        """
        if size > self.room + self.debt - self.queued:
            raise ProtocolError(FLOW_CONTROL_ERROR, f"DATA of {size} bytes exceeds the window")

    def taken(self, size: int) -> None:
        """Bytes from the client were taken off its stream (rule 5)."""
        self.debt -= size

    def queue(self, size: int) -> None:
        """Bytes from the client wait here for room."""
        self.queued += size

    def put(self, size: int) -> None:
        """Bytes of our own wait here for room (rule 6)."""
        self.queued += size
        self.debt += size

    def sent(self, size: int) -> None:
        """Bytes that waited went to the backend."""
        self.queued -= size
        self.room -= size

    def dropped(self, size: int) -> None:
        """Bytes that waited will not be sent (rule 5)."""
        self.queued -= size
        self.debt -= size

    def credited(self, size: int) -> None:
        """The backend allows more (rule 7)."""
        self.room += size
        self.debt -= size

    def owed(self) -> int:
        """Return the credit due to the client now; it counts as given (rule 8)."""
        owed = max(0, -self.debt)
        self.debt += owed
        return owed
