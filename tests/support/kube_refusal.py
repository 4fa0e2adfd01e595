"""What the double of the API server says when it refuses: a ``Status``, as the real one's."""

from __future__ import annotations

from aiohttp import web
from koord_kube.api import Object


class Refused(Exception):
    """``retry_after`` is seconds, 0 for none; ``budget`` what a disruption budget says.

    ``causes`` are the fields that are wrong and what of them, ``token`` is where a list
    whose snapshot is gone can go on, ``about`` is the kind and the name that this is about.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: int = 0,
        budget: str = "",
        causes: tuple[tuple[str, str], ...] = (),
        token: str = "",
        about: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after
        self.budget, self.causes, self.token, self.about = budget, causes, token, about

    def answer(self) -> web.Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status in (301, 302, 307, 308):
            headers["Location"] = "/elsewhere"
        return web.json_response(self.document(), status=self.status, headers=headers)

    def document(self) -> Object:
        details: Object = {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
        if self.about[0]:
            details["kind"], details["name"] = self.about
        if self.budget:
            details["causes"] = [{"reason": "DisruptionBudget", "message": self.budget}]
        if self.causes:
            details["causes"] = [
                {"reason": "FieldValueInvalid", "field": field, "message": message}
                for field, message in self.causes
            ]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": details,
            "code": self.status,
        }


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
    return Refused(404, "NotFound", f'{plural} "{name}" not found', about=(plural, name))


def conflict(plural: str, name: str, why: str = "") -> Refused:
    """409: somebody else was faster."""
    more = why or (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    message = f'Operation cannot be fulfilled on {plural} "{name}": {more}'
    return Refused(409, "Conflict", message, about=(plural, name))
