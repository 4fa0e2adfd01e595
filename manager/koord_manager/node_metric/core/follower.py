"""One list, and the position and next event of one watch. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from koord_serving.aggregated.core.list_options import (
    ListOptions,
    ObjectForm,
    ResourceVersionMatch,
    StatusError,
)

from koord_manager.node_metric.core import documents
from koord_manager.node_metric.core.store import (
    EventType,
    MetricEvent,
    MetricPage,
    NodeMetricStore,
    TooNewError,
    TooOldError,
)

_TOO_NEW_RETRY_SECONDS = 1


def page(store: NodeMetricStore, options: ListOptions) -> MetricPage:
    """Return a list's page; all versions but the newest are understood as "not older than".

    Raises:
        RefusedError: the version is too old or none of ours.
    """
    try:
        if options.after:
            return store.page(options.limit, options.after, options.version)
        store.require_reached(options.version)
        if options.match is ResourceVersionMatch.EXACT and options.version != store.version:
            raise TooOldError(f"The resource version {options.version} is no longer kept.")
        return store.page(options.limit)
    except (TooOldError, TooNewError) as error:
        raise _refused(error) from None


class Follower:
    """A watch.

    Raises:
        RefusedError: at once, where the version is too old or none of ours.
    """

    def __init__(
        self,
        store: NodeMetricStore,
        options: ListOptions,
        shape: ObjectForm,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._options = options
        self._shape = shape
        self._clock = clock
        self._term = store.term
        self._version = store.version
        self.ended = False
        """True if the last event was the error that ends the watch."""
        self._first: tuple[MetricEvent, ...] = ()
        if options.initial or (options.version <= 0 and options.initial is None):
            self._begin_with_all()
        elif options.version > 0:
            self._version = options.version
            self._events()

    @property
    def current(self) -> bool:
        """True if the store is still of the term in which this began."""
        return self._store.term == self._term

    def first(self) -> Iterator[bytes]:
        """All objects, if the watch starts with them; sent once."""
        first, self._first = self._first, ()
        yield from map(self._line, first)
        if self._options.initial:
            yield documents.bookmark(self._version, self._shape, initial_end=True)

    def next(self) -> Iterator[bytes]:
        """Return the events since the last call."""
        if self._version == self._store.version:
            return iter(())
        try:
            events = self._events()
        except StatusError as refused:
            self.ended = True
            return iter((documents.error_line(refused),))
        self._version = self._store.version
        return map(self._line, self._select(events))

    def bookmark(self) -> bytes:
        """Return a bookmark of the present version."""
        return documents.bookmark(self._version, self._shape)

    def _begin_with_all(self) -> None:
        try:
            self._store.require_reached(self._options.version)
        except TooNewError as error:
            raise _refused(error) from None
        objects = self._store.page().objects
        events = [MetricEvent(EventType.ADDED, stored.version, stored) for stored in objects]
        self._first = tuple(self._select(events))

    def _select(self, events: list[MetricEvent]) -> list[MetricEvent]:
        names = self._options.names
        return (
            events if names.all else [event for event in events if names.include(event.kept.name)]
        )

    def _events(self) -> list[MetricEvent]:
        try:
            return self._store.since(self._version)
        except (TooOldError, TooNewError) as error:
            raise _refused(error) from None

    def _line(self, event: MetricEvent) -> bytes:
        full = self._options.whole_in_rows
        return documents.line(event, self._shape, full=full, now=self._clock())


def _refused(error: TooOldError | TooNewError) -> StatusError:
    if isinstance(error, TooOldError):
        return StatusError(410, "Expired", str(error))
    return StatusError(
        504,
        "Timeout",
        str(error),
        retry_after=_TOO_NEW_RETRY_SECONDS,
        cause="ResourceVersionTooLarge",
    )
