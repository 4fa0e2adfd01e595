"""Options of a client's request, parsed as the real API server does. No IO."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

import msgspec
from koord_model.excerpt import excerpt
from koord_model.label_selector import LabelSelector, Operator, Requirement

_TRUE = {"": True, "1": True, "t": True, "true": True, "True": True, "TRUE": True}
_FALSE = {"0": False, "f": False, "false": False, "False": False, "FALSE": False}
_FIELD = re.compile(r"\s*metadata\.name\s*(==|=|!=)\s*([^,=!\s]*)\s*")
_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_WORD = r"[A-Za-z0-9._-]*"
_LABEL = re.compile(
    rf"\s*(?:(?P<none>!)\s*)?(?P<key>{_KEY})\s*"
    rf"(?:(?P<equal>==|=|!=)\s*(?P<value>{_WORD})\s*"
    rf"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)\s*)?"
)
_BETWEEN = re.compile(r",(?![^(]*\))")
_LONGEST = 4096
"""Letters of a selector."""


class StatusError(Exception):
    """A request that fails, with the fields of Kubernetes' Status."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: int = 0, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.cause = cause


class ObjectForm(Enum):
    """Form in which objects are shown."""

    OBJECT = "object"
    TABLE = "table"
    METADATA = "metadata"


class ResourceVersionMatch(StrEnum):
    """Match of a list's version."""

    UNSET = ""
    NOT_OLDER_THAN = "NotOlderThan"
    EXACT = "Exact"


@dataclass(frozen=True, slots=True)
class NameSelector:
    """Selection of objects; ``excluded`` names and, where ``none`` is set, all are left out."""

    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    none: bool = False

    @property
    def all(self) -> bool:
        """True if every object is selected."""
        return self.only is None and not self.excluded and not self.none

    def include(self, name: str) -> bool:
        """True if this object is selected."""
        if self.none or name in self.excluded:
            return False
        return self.only is None or name in self.only


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Of a list or a watch; ``after`` is a name and comes, with ``version``, of ``continue``.

    ``fields`` and ``labels`` are what the selectors ask for, which ``names`` follows from.
    ``version`` is -1 if not set; ``timeout`` is in seconds, 0 for our default.
    """

    names: NameSelector = NameSelector()
    fields: tuple[Requirement, ...] = ()
    labels: tuple[Requirement, ...] = ()
    version: int = -1
    match: ResourceVersionMatch = ResourceVersionMatch.UNSET
    limit: int = 0
    after: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial: bool | None = None
    timeout: int = 0
    whole_in_rows: bool = False

    @property
    def name(self) -> str:
        """The only name that may be among the objects, by which access is granted; "" for any."""
        exact = (field.values for field in self.fields if field.operator is Operator.IN)
        (name,) = next(exact, ("",))
        return "" if name in (".", "..") or {"/", "%"} & {*name} else name


def parse(query: Mapping[str, str]) -> ListOptions:
    """The parameters of a request.

    Raises:
        RefusedError: one cannot be.
    """
    given = query.get("fieldSelector", ""), query.get("labelSelector", "")
    if max(map(len, given)) > _LONGEST:
        raise _bad(f"a selector is longer than {_LONGEST} letters")
    fields, labels = _fields(given[0]), _labels(given[1])
    options = ListOptions(
        names=_names(fields, labels),
        fields=fields,
        labels=labels.requirements,
        version=_number(query, "resourceVersion", -1),
        match=_match(query.get("resourceVersionMatch", "")),
        limit=_number(query, "limit", 0),
        watch=_flag(query, "watch"),
        bookmarks=_flag(query, "allowWatchBookmarks"),
        initial=_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout=_number(query, "timeoutSeconds", 0),
        whole_in_rows=query.get("includeObject") == "Object",
    )
    _check(options)
    token = query.get("continue", "")
    if not token:
        return options
    if options.version > 0 or options.match:
        raise _bad("specifying resource version is not allowed when using continue")
    version, after = _continued(token)
    return replace(options, version=version, after=after)


def continuation(version: int, after: str) -> str:
    """The ``continue`` of the page after one."""
    return base64.urlsafe_b64encode(msgspec.json.encode(_Continue(version, after))).decode()


def form(accept: str) -> ObjectForm:
    """Return the client's preferred form of those that are available.

    Raises:
        RefusedError: it takes nothing of ours.
    """
    for choice in accept.split(",") if accept else ["*/*"]:
        kind, *more = (part.strip() for part in choice.split(";"))
        given = dict(part.split("=", 1) for part in more if "=" in part)
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        requested = given.get("as", "")
        if not requested:
            return ObjectForm.OBJECT
        if given.get("g") != "meta.k8s.io" or given.get("v") != "v1":
            continue
        if requested == "Table":
            return ObjectForm.TABLE
        if requested in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return ObjectForm.METADATA
    raise StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, "
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )


class _Continue(msgspec.Struct):
    version: int
    after: str


def _continued(token: str) -> tuple[int, str]:
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Continue)
    except (ValueError, binascii.Error):  # msgspec's errors are ValueErrors
        raise _bad("continue key is not valid") from None
    if found.version <= 0 or not found.after:
        raise _bad("continue key is not valid")
    return found.version, found.after


def _check(options: ListOptions) -> None:
    if options.watch:
        _check_watch(options)
        return
    if options.match and options.version < 0:
        raise _invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.match is ResourceVersionMatch.EXACT and options.version == 0:
        raise _invalid('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if options.initial is not None:
        raise _invalid("sendInitialEvents is forbidden for list")


def _check_watch(options: ListOptions) -> None:
    """A watch that begins with all there is may name no version: client-go's first one does not."""
    if options.initial is not None and options.match is not ResourceVersionMatch.NOT_OLDER_THAN:
        raise _invalid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if options.initial is None and options.match:
        raise _invalid("resourceVersionMatch is forbidden for watch unless sendInitialEvents")
    if options.initial and not options.bookmarks:
        raise _invalid("sendInitialEvents requires setting allowWatchBookmarks")


def _names(fields: Sequence[Requirement], labels: LabelSelector) -> NameSelector:
    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    for field in fields:
        if field.operator is Operator.NOT_IN:
            excluded |= field.values
        else:
            only = field.values if only is None else only & field.values
    # The objects have no labels.
    return NameSelector(only, excluded, not labels.matches({}))


def _fields(text: str) -> tuple[Requirement, ...]:
    found: list[Requirement] = []
    for part in text.split(",") if text else ():
        match = _FIELD.fullmatch(part)
        if match is None:
            message = f"field selector {excerpt(part)} is not supported; there is metadata.name"
            raise _bad(message)
        operator = Operator.NOT_IN if match[1] == "!=" else Operator.IN
        found.append(Requirement("metadata.name", operator, frozenset({match[2]})))
    return tuple(found)


def _labels(text: str) -> LabelSelector:
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_requirement(part) for part in _BETWEEN.split(text)))


def _requirement(text: str) -> Requirement:
    match = _LABEL.fullmatch(text)
    if match is None or (match["none"] and (match["equal"] or match["set"])):
        raise _bad(f"unable to parse requirement: {excerpt(text)}")
    key = match["key"]
    if match["none"]:
        return Requirement(key, Operator.DOES_NOT_EXIST)
    if match["equal"]:
        operator = Operator.NOT_IN if match["equal"] == "!=" else Operator.IN
        return Requirement(key, operator, frozenset({match["value"]}))
    if match["set"]:
        operator = Operator.IN if match["set"] == "in" else Operator.NOT_IN
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(key, operator, values)
    return Requirement(key, Operator.EXISTS)


def _match(text: str) -> ResourceVersionMatch:
    try:
        return ResourceVersionMatch(text)
    except ValueError:
        raise _invalid(f"resourceVersionMatch {excerpt(text)} is not supported") from None


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise _bad(f"{name}: Invalid value: {excerpt(text)}; expected a whole number")
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    """As Go reads them; one without a value is set."""
    if name not in query:
        return False
    found = (_TRUE | _FALSE).get(query[name])
    if found is None:
        raise _bad(f"{name}: Invalid value: {excerpt(query[name])}; expected true or false")
    return found


def _bad(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def _invalid(message: str) -> StatusError:
    return StatusError(422, "Invalid", message)
