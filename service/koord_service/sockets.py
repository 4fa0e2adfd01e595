"""Listening unix sockets with a mode and an owner.

A socket appears under its name only when all is ready: it is bound to a temporary
name beside it with no permissions at all, given owner and mode, set to listen, and
then renamed, so that no client ever meets a half-made one. The kernel keeps showing
the temporary name (the last character is ``~``) in ``ss`` and ``getsockname``.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import re
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

BACKLOG = 1024
"""Connections that may wait to be accepted; the sysctl net.core.somaxconn bounds it."""
# sun_path of sockaddr_un is 108 bytes, the last of them zero.
_LONGEST_PATH = 107
_PROBE_TIMEOUT_SECONDS = 1.0
_LOCK_SECONDS = 2.0
_LOCK_PAUSE_SECONDS = 0.01
# (uid_t)-1 means "leave it"; 32 bits hold the others.
_UNCHANGED = -1
_LARGEST_ID = 2**32 - 2


class SocketInUseError(OSError):
    """A live server answers on the path; the message is one line naming it."""


def listen_unix(path: str, *, mode: int = 0o660, owner: str = "") -> socket.socket:
    """A non-blocking socket listening on ``path``; a stale socket file is replaced.

    Missing parent directories are made with mode 0755. ``owner`` is "user",
    "user:group" or ":group", by name or number; what is not named stays.

    Raises:
        SocketInUseError: a live server answers on ``path``.
        ValueError: ``path`` is too long, or ``owner`` names nobody.
        OSError: ``path`` is something else than a socket, or is not permitted.
    """
    user, group = _ids(owner)
    length = len(os.fsencode(path))
    if length > _LONGEST_PATH:
        raise ValueError(
            f"{path}: a unix socket path has at most {_LONGEST_PATH} bytes; this has {length}"
        )
    final = Path(path)
    _make_parents(final.parent)
    with _locked(final.parent):
        return _listen(final, mode, user, group)


SocketIdentity = tuple[int, int, int]
"""Distinguishes a socket file from another of the same name: inodes alone are used again."""


def socket_identity(path: str) -> SocketIdentity:
    """The identity of the socket on a path.

    Raises:
        OSError: there is none.
    """
    status = Path(path).lstat()
    return status.st_dev, status.st_ino, status.st_ctime_ns


def remove_unix(path: str, identity: SocketIdentity) -> None:
    """Remove a socket file, unless it is another's by now."""
    with _locked(Path(path).parent), contextlib.suppress(OSError):
        if socket_identity(path) == identity:
            Path(path).unlink()


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Nobody else puts a socket into a directory, or takes one away, while the block runs.

    A process that was stopped with the lock in its hands is not waited for for ever.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        # May be searched, not read: then it is nobody else's either, most likely.
        yield
        return
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while not _lock(descriptor) and time.monotonic() < end:
            time.sleep(_LOCK_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _listen(final: Path, mode: int, user: int, group: int) -> socket.socket:
    path = str(final)
    _check_free(final)
    # As long as the final name, so that it fits where that fits.
    temporary = final.with_name(final.name[:-1] + ("-" if final.name.endswith("~") else "~"))
    _remove_leftover(temporary)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        # Linux creates the file with the mode the unbound socket has.
        os.fchmod(listener.fileno(), 0)
        listener.bind(os.fsencode(temporary))
        try:
            os.chown(temporary, user, group, follow_symlinks=False)
            temporary.chmod(mode)
            listener.listen(BACKLOG)
            temporary.rename(final)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen: {reason}", path) from None
    return listener


def parse_mode(text: str) -> int:
    """The permissions that ``text`` names in octal digits, such as "0660".

    Raises:
        ValueError: not a valid mode of a socket.
    """
    if not re.fullmatch(r"(?:0o?)?[0-7]{3}", text):
        raise ValueError(f'socket mode is "{text}"; expected octal digits such as "0660"')
    return int(text, 8)


def _make_parents(directory: Path) -> None:
    missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
    for parent in reversed(missing):
        with contextlib.suppress(FileExistsError):
            parent.mkdir(0o755)
            # A service's umask would keep the socket's users out of the directory.
            parent.chmod(0o755)


def _check_free(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path}: is not a socket; remove it, or choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_SECONDS)
        try:
            probe.connect(os.fsencode(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            # A full backlog, another socket type: somebody holds it, if not for us.
            reason = error.strerror or str(error)
            raise SocketInUseError(f"{path}: the socket is in use ({reason})") from None
    raise SocketInUseError(f"{path}: a running server answers on this socket")


def _remove_leftover(temporary: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(temporary.lstat().st_mode):
            temporary.unlink()


def _ids(owner: str) -> tuple[int, int]:
    user, colon, group = owner.partition(":")
    if owner and (":" in group or (colon and not group)):
        raise ValueError(f'owner is "{owner}"; expected "user", "user:group" or ":group"')
    return _user_id(user), _group_id(group)


def _user_id(user: str) -> int:
    if not user:
        return _UNCHANGED
    if user.isascii() and user.isdigit() and int(user) <= _LARGEST_ID:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ValueError(f'owner: there is no user "{user}" on this machine') from None


def _group_id(group: str) -> int:
    if not group:
        return _UNCHANGED
    if group.isascii() and group.isdigit() and int(group) <= _LARGEST_ID:
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f'owner: there is no group "{group}" on this machine') from None
