"""Registration files of hook servers: JSON in, a checked value out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
from koord_hooks.stages import Stage

DEFAULT_TIMEOUT = 2.0
MAX_TIMEOUT = 120.0
"""Seconds; the kubelet itself gives up on a call after two minutes."""


class Policy(StrEnum):
    """What becomes of a call whose hook did not work out."""

    FAIL = "Fail"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Registration:
    """A hook server, as its file describes it; ``timeout`` is in seconds."""

    name: str
    endpoint: str
    policy: Policy
    stages: frozenset[Stage]
    timeout: float = DEFAULT_TIMEOUT
    priority: int = 0
    connections: int = 1
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What in the file was passed over, one line each."""


class RegistrationError(ValueError):
    """A file that cannot be used; the message is one line without its name."""


class _File(msgspec.Struct, rename="kebab", frozen=True):
    remote_endpoint: str = ""
    failure_policy: str = ""
    runtime_hooks: list[str] | None = None
    timeout: float = DEFAULT_TIMEOUT
    priority: int = 0
    connections: int = 1


def parse(name: str, text: bytes) -> Registration:
    """The hook server that a file describes; ``name`` is the file's without ".json".

    Stages that are not known here are passed over, with a note: a newer server
    may list them.

    Raises:
        RegistrationError: no JSON object, or a value that cannot be used.
    """
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistrationError(_one_line(f"is no registration: {error}")) from None
    endpoint = file.remote_endpoint.removeprefix("unix://")
    if not endpoint.startswith("/"):
        raise RegistrationError(
            f'"remote-endpoint" is {_quoted(file.remote_endpoint)}; '
            "expected the absolute path of a unix socket"
        )
    if not 0 < file.timeout <= MAX_TIMEOUT:
        raise RegistrationError(
            f'"timeout" is {file.timeout:g}; expected seconds, more than 0 and at most '
            f"{MAX_TIMEOUT:g}"
        )
    if not 1 <= file.connections <= 16:
        raise RegistrationError(f'"connections" is {file.connections}; expected 1 to 16')
    known = {stage.value for stage in Stage}
    listed = dict.fromkeys(file.runtime_hooks or ())
    unknown = [stage for stage in listed if stage not in known and stage != "NoneRuntimeHookType"]
    return Registration(
        name=name,
        endpoint=endpoint,
        policy=_policy(file.failure_policy),
        stages=frozenset(Stage(stage) for stage in listed if stage in known),
        timeout=file.timeout,
        priority=file.priority,
        connections=file.connections,
        notes=tuple(f'"runtime-hooks" has {_quoted(stage)}, not known here' for stage in unknown),
    )


def _policy(text: str) -> Policy:
    """The policy; none given is Koordinator's ``None``, which lets calls pass."""
    try:
        return Policy(text) if text else Policy.IGNORE
    except ValueError:
        raise RegistrationError(
            f'"failure-policy" is {_quoted(text)}; expected "Fail" or "Ignore"'
        ) from None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text[:60]).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


class Registrations:
    """The files of the directory, as they were last seen; what changed is said once.

    A file that becomes unreadable keeps counting as it was until it is right
    again or gone: servers write it in place.
    """

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._servers: dict[str, Registration] = {}

    def update(self, files: dict[str, bytes]) -> tuple[list[Registration], list[str], list[str]]:
        """Take in the directory's files (name without ".json" to content).

        Returns the servers in the order they are asked (priority, then name),
        and what to report: problems, and news.
        """
        problems, news = [], []
        for name in sorted(self._texts.keys() - files.keys()):
            del self._texts[name]
            if self._servers.pop(name, None):
                news.append(f"{name}.json: gone, its server is not asked any more")
        for name, text in sorted(files.items()):
            if self._texts.get(name) == text:
                continue
            self._texts[name] = text
            try:
                server = parse(name, text)
            except RegistrationError as error:
                problems.append(f"{name}.json: {error} ({self._consequence(name)})")
                continue
            problems += [f"{name}.json: {note}" for note in server.notes]
            self._servers[name] = server
            stages = ", ".join(sorted(server.stages)) or "nothing"
            news.append(f"{name}.json: {server.endpoint} is asked about {stages}")
        servers = sorted(self._servers.values(), key=lambda server: (server.priority, server.name))
        return servers, problems, news

    def _consequence(self, name: str) -> str:
        if name in self._servers:
            return "its last good version stays in use"
        return f"file ignored, {len(self._servers)} others in use"
