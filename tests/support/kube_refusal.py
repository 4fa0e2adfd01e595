"""What the double of the API server says when it refuses: a ``Status``, as the real one's."""

from __future__ import annotations

from aiohttp import web
from koord_kube.protocol.api import Object


class Refused(Exception):
    """``retry_after`` is seconds, 0 for none.

    ``causes`` are the fields that are wrong and what of them, ``token`` is where a list
    whose snapshot is gone can go on, ``about`` is the kind with its group and the name that
    this is about. A cause without a field begins with its reason.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: int = 0,
        causes: tuple[tuple[str, str], ...] = (),
        token: str = "",
        about: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after
        self.causes, self.token, self.about = causes, token, about

    def answer(self) -> web.Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status in (301, 302, 307, 308):
            headers["Location"] = "/elsewhere"
        return web.json_response(self.document(), status=self.status, headers=headers)

    def document(self) -> Object:
        kind, _, group = self.about[0].partition(".")
        said = {"name": self.about[1], "group": group, "kind": kind}
        details: Object = {name: one for name, one in said.items() if one}
        if self.causes:
            details["causes"] = [_cause(*one) for one in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": str(self),
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}),
            "code": self.status,
        }


_REASONS = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Invalid value": "FieldValueInvalid",
}
"""The word for programs, by the words for people."""


def _cause(field: str, message: str) -> Object:
    first = message.partition(":")[0]
    if field == "":  # Of no field: what comes first is the word itself.
        word = {"reason": first} if first else {}
        return {**word, "message": message.partition(": ")[2]}
    reason = _REASONS.get(first, "FieldValueInvalid")
    if "in body must be of type" in message:
        reason = "FieldValueTypeInvalid"
    return {"reason": reason, "message": message, "field": field}


def internal(message: str) -> Refused:
    """500: the server could not do its own part."""
    said = f"Internal error occurred: {message}"
    return Refused(500, "InternalError", said, causes=(("", f": {message}"),))


def bad_request(message: str) -> Refused:
    """400: what was sent cannot be read."""
    return Refused(400, "BadRequest", message)


def invalid(kind: str, name: str, *causes: tuple[str, str]) -> Refused:
    """422: these fields are wrong; each with what is wrong with it."""
    words = ", ".join(f"{field}: {message}" for field, message in causes)
    shown = words if len(causes) == 1 else f"[{words}]"
    message = f'{kind} "{name}" is invalid: {shown}'
    return Refused(422, "Invalid", message, causes=causes, about=(kind, name))


def not_found(plural: str, name: str) -> Refused:
    """404: there is none; ``plural`` is with its group."""
    return Refused(404, "NotFound", f'{plural} "{name}" not found', about=(plural, name))


def conflict(plural: str, name: str, why: str = "") -> Refused:
    """409: somebody else was faster; ``plural`` is with its group."""
    more = why or (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    message = f'Operation cannot be fulfilled on {plural} "{name}": {more}'
    return Refused(409, "Conflict", message, about=(plural, name))
