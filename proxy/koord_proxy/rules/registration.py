"""Registration files of hook servers: JSON in, a checked value out."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import msgspec
from koord_hooks.stages import Stage

DEFAULT_TIMEOUT = 2.0
MAX_TIMEOUT = 120.0
"""Seconds; the kubelet itself gives up on a call after two minutes."""


class FailurePolicy(StrEnum):
    """Treatment of a call whose hook failed."""

    FAIL = "Fail"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class HookServerRegistration:
    """A hook server, as its file describes it; ``timeout`` is in seconds."""

    name: str
    endpoint: str
    policy: FailurePolicy
    stages: frozenset[Stage]
    timeout: float = DEFAULT_TIMEOUT
    priority: int = 0
    connections: int = 1
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Parts of the file that were ignored, one line each."""


class RegistrationError(ValueError):
    """A file that cannot be used; the message is one line without its name."""


class _File(msgspec.Struct, rename="kebab", frozen=True):
    remote_endpoint: str = ""
    failure_policy: str = ""
    runtime_hooks: list[str] | None = None
    timeout: float = DEFAULT_TIMEOUT
    priority: int = 0
    connections: int = 1


def parse(name: str, text: bytes) -> HookServerRegistration:
    """The hook server that a file describes; ``name`` is the file's without ".json".

    Stages that are not known here are passed over, with a note: a newer server
    may list them.

    Raises:
        RegistrationError: no JSON object, or a value that cannot be used.
    """
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistrationError(_one_line(f"is not valid: {error}")) from None
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
    return HookServerRegistration(
        name=name,
        endpoint=endpoint,
        policy=_policy(file.failure_policy),
        stages=frozenset(Stage(stage) for stage in listed if stage in known),
        timeout=file.timeout,
        priority=file.priority,
        connections=file.connections,
        notes=tuple(f'"runtime-hooks" has {_quoted(stage)}, not known here' for stage in unknown),
    )


def _policy(text: str) -> FailurePolicy:
    """The policy; none given is Koordinator's ``None``, which lets calls pass."""
    try:
        return FailurePolicy(text) if text else FailurePolicy.IGNORE
    except ValueError:
        raise RegistrationError(
            f'"failure-policy" is {_quoted(text)}; expected "Fail" or "Ignore"'
        ) from None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text[:60]).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


class RegistrationUpdate(NamedTuple):
    """Result of a check of the directory.

    ``servers`` are in the order they are asked: by priority, then by name. ``problems`` and
    ``news`` are lines to log. ``good`` are last good versions that are new, ``removed`` the
    servers that were deregistered.
    """

    servers: list[HookServerRegistration]
    problems: list[str]
    news: list[str]
    good: dict[str, bytes]
    removed: list[str]


class HookServerRegistrations:
    """The servers that are expected; what changed is said once.

    A server that was registered is expected until it is deregistered. While its file cannot
    be used, or is not there, its last good version counts.
    """

    def __init__(self, last_good: Mapping[str, bytes]) -> None:
        self.errors: dict[str, str] = {}
        """Current error of each registration, by name."""
        # The files as they were last seen.
        self._texts: dict[str, bytes] = {}
        self._good = dict(last_good)
        self._servers: dict[str, HookServerRegistration] = {}
        for name, text in last_good.items():
            # What another release could use may be none here.
            with contextlib.suppress(RegistrationError):
                self._servers[name] = parse(name, text)

    def update(
        self, files: Mapping[str, bytes], removed: Collection[str] = ()
    ) -> RegistrationUpdate:
        """Take in the directory's files (name without ".json" to content).

        ``removed`` are the names that somebody deregistered; a file of such a name counts more.
        """
        update = RegistrationUpdate([], [], [], {}, [])
        for name in sorted((self._texts.keys() | self._good.keys()) - files.keys()):
            self._texts.pop(name, None)
            if name in removed:
                self._remove(name, update)
            else:
                self._miss(name, update)
        for name, text in sorted(files.items()):
            if self._texts.get(name) != text:
                self._texts[name] = text
                self._read(name, text, update)
        update.servers.extend(self._servers.values())
        update.servers.sort(key=lambda server: (server.priority, server.name))
        return update

    def _remove(self, name: str, update: RegistrationUpdate) -> None:
        self.errors.pop(name, None)
        if self._good.pop(name, None) is not None:
            update.removed.append(name)
        if self._servers.pop(name, None):
            update.news.append(f"{name}.json: deregistered, its server is not asked any more")

    def _miss(self, name: str, update: RegistrationUpdate) -> None:
        """A file is gone. Nobody said that its server is not to be asked any more."""
        if name not in self._servers:
            self.errors.pop(name, None)
            return
        reason = (
            "is gone; its server is expected all the same, "
            f"unless it is deregistered: koordctl hooks remove {name}"
        )
        if self.errors.get(name) != reason:
            self.errors[name] = reason
            update.problems.append(f"{name}.json: {reason}")

    def _read(self, name: str, text: bytes, update: RegistrationUpdate) -> None:
        try:
            server = parse(name, text)
        except RegistrationError as error:
            self.errors[name] = f"{error} ({self._consequence(name)})"
            update.problems.append(f"{name}.json: {self.errors[name]}")
            return
        self.errors.pop(name, None)
        self._servers[name] = server
        if self._good.get(name) != text:
            self._good[name] = update.good[name] = text
        update.problems.extend(f"{name}.json: {note}" for note in server.notes)
        stages = ", ".join(sorted(server.stages)) or "nothing"
        update.news.append(f"{name}.json: {server.endpoint} is asked about {stages}")

    def _consequence(self, name: str) -> str:
        if name in self._servers:
            return "its last good version stays in use"
        return f"file ignored, {len(self._servers)} others in use"
