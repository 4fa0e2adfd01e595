"""Unix sockets: mode, owner, stale and live ones."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_service import sockets
from koord_service.sockets import SocketInUseError, listen_unix, parse_mode

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.sock"


@contextlib.contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def make_stale(path: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
    with socket.socket(socket.AF_UNIX, kind) as dead:
        dead.bind(str(path))


def talk(path: Path, listener: socket.socket) -> None:
    """Pass a message through the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        connection, _ = listener.accept()
        with connection:
            client.sendall(b"hello")
            assert connection.recv(5) == b"hello"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_listens(path: Path) -> None:
    with listen_unix(str(path)) as listener:
        assert not listener.getblocking()
        assert not listener.get_inheritable()
        assert mode_of(path) == 0o660
        talk(path, listener)
    assert os.listdir(path.parent) == ["test.sock"]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_mode_whatever_the_umask(path: Path, mask: int) -> None:
    with umask(mask), listen_unix(str(path), mode=0o606):
        assert mode_of(path) == 0o606


def test_never_wider_than_the_mode_nor_missing(path: Path) -> None:
    """A client that looks all the time sees a ready socket with the right mode."""
    make_stale(path)
    path.chmod(0o600)
    seen: set[object] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((path.name, mode_of(path) if path.exists() else "missing"))
            with contextlib.suppress(FileNotFoundError):
                half_made = path.with_name("test.soc~")
                seen.add((half_made.name, mode_of(half_made)))

    with umask(0):
        watcher = threading.Thread(target=look)
        watcher.start()
        for _ in range(300):
            listen_unix(str(path), mode=0o600).close()
        done.set()
        watcher.join()
    assert ("test.sock", 0o600) in seen
    assert seen <= {("test.sock", 0o600), ("test.soc~", 0o600), ("test.soc~", 0)}


def test_a_half_made_socket_lets_nobody_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first name to its last: no permissions, then the right ones, then a listener."""
    half_made = path.with_name("test.soc~")
    seen: list[tuple[str, int]] = []

    def look_before(owner: object, step: str) -> None:
        real = getattr(owner, step)

        def looked(*arguments: object, **named: object) -> object:
            seen.append((step, mode_of(half_made)))
            return real(*arguments, **named)

        monkeypatch.setattr(owner, step, looked)

    for owner, step in ((os, "chown"), (Path, "chmod"), (socket.socket, "listen")):
        look_before(owner, step)
    with umask(0), listen_unix(str(path), mode=0o600):
        pass
    assert seen == [("chown", 0), ("chmod", 0), ("listen", 0o600)]


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_parents_are_made_and_keep_their_modes(tmp_path: Path, mask: int) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "a" / "b" / "test.sock"
    with umask(mask), listen_unix(str(path)) as listener:
        found = [mode_of(one) for one in (tmp_path, path.parent.parent, path.parent)]
        assert found == [0o700, 0o755, 0o755]
        talk(path, listener)


def test_a_relative_path(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.chdir(path.parent)
    with listen_unix(path.name) as listener:
        talk(path, listener)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("stale", ["test.sock", "test.soc~"])  # the second after a crash
def test_a_stale_socket_is_replaced(path: Path, kind: socket.SocketKind, stale: str) -> None:
    make_stale(path.with_name(stale), kind)
    with listen_unix(str(path)) as listener:
        talk(path, listener)
    assert os.listdir(path.parent) == ["test.sock"]
    short = path.with_name("~")
    with listen_unix(str(short)) as listener:
        talk(short, listener)


def test_a_live_server_is_an_error(path: Path) -> None:
    with listen_unix(str(path)) as listener:
        with pytest.raises(SocketInUseError) as refusal:
            listen_unix(str(path))
        assert str(refusal.value) == f"{path}: a running server answers on this socket"
        assert isinstance(refusal.value, OSError)
        listener.accept()[0].close()
        talk(path, listener)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_live_socket_that_does_not_answer_is_an_error(
    path: Path, kind: socket.SocketKind
) -> None:
    with socket.socket(socket.AF_UNIX, kind) as busy, socket.socket(socket.AF_UNIX) as client:
        busy.bind(str(path))
        if kind is socket.SOCK_STREAM:
            busy.listen(0)
            client.connect(str(path))
        with pytest.raises(SocketInUseError, match=r"test\.sock: the socket is in use"):
            listen_unix(str(path))


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("x")])
def test_something_else_is_not_replaced(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(FileExistsError, match=r"test\.sock: is not a socket"):
        listen_unix(str(path))
    assert path.is_symlink() or path.exists()


def test_a_file_with_the_temporary_name_is_not_removed(path: Path) -> None:
    precious = path.with_name("test.soc~")
    precious.write_text("precious")
    with pytest.raises(OSError, match=r"cannot listen: Address already in use.*test\.sock"):
        listen_unix(str(path))
    assert precious.read_text() == "precious"


def test_the_longest_path(tmp_path: Path) -> None:
    room = 107 - len(str(tmp_path)) - 1
    path = tmp_path / ("x" * room)
    with listen_unix(str(path)) as listener:
        talk(path, listener)
    too_long = tmp_path / ("x" * (room + 1))
    with pytest.raises(ValueError, match="at most 107 bytes; this has 108"):
        listen_unix(str(too_long))


@as_root
@pytest.mark.parametrize(
    ("owner", "user", "group"),
    [
        ("", 0, 0),
        ("4321", 4321, 0),
        ("4321:8765", 4321, 8765),
        (":8765", 0, 8765),
        ("daemon", 1, 0),
        ("root:daemon", 0, 1),
    ],
)
def test_owner(path: Path, owner: str, user: int, group: int) -> None:
    with listen_unix(str(path), owner=owner):
        status = path.stat()
    assert (status.st_uid, status.st_gid) == (user, group)
    assert mode_of(path) == 0o660


@as_root
def test_an_owner_that_may_not_be_given_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    # By a relative name, since nobody may walk down to the directory.
    monkeypatch.chdir(tmp_path)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match=r"cannot listen: Operation not.*test\.sock"):
            listen_unix("test.sock", owner="4321")
    finally:
        os.seteuid(0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ("no-such-user", 'owner: there is no user "no-such-user" on this machine'),
        (":no-such-group", 'owner: there is no group "no-such-group" on this machine'),
        ("4294967295", 'owner: there is no user "4294967295"'),
        ("root:", 'owner is "root:"; expected "user", "user:group" or ":group"'),
        (":", 'owner is ":"; expected'),
        ("a:b:c", 'owner is "a:b:c"; expected'),
    ],
)
def test_unknown_owner(path: Path, owner: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        listen_unix(str(path), owner=owner)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("text", "mode"), [("0660", 0o660), ("660", 0o660), ("0o600", 0o600), ("0777", 0o777)]
)
def test_parse_mode(text: str, mode: int) -> None:
    assert parse_mode(text) == mode


@pytest.mark.parametrize("text", ["", "66", "0888", "1777", "rw-rw----", "06_0", " 0660", "0660\n"])
def test_parse_mode_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="expected octal digits such as"):
        parse_mode(text)


class TestRemoval:
    def test_ours_goes_and_anothers_stays_even_with_our_inode(self, tmp_path: Path) -> None:
        path = tmp_path / "x.sock"
        with sockets.listen_unix(str(path)):
            ours = device, inode, changed = sockets.socket_identity(str(path))
            sockets.remove_unix(str(path), (device, inode + 1, changed))
            sockets.remove_unix(str(path), (device, inode, changed - 1))
            assert path.exists()
            sockets.remove_unix(str(path), ours)
        assert list(tmp_path.iterdir()) == []
        for gone in (path, tmp_path / "none" / "x.sock"):
            sockets.remove_unix(str(gone), ours)

    def test_it_waits_while_another_puts_its_own_there(self, tmp_path: Path) -> None:
        path = str(tmp_path / "x.sock")
        with sockets.listen_unix(path), sockets._locked(tmp_path):
            identity = sockets.socket_identity(path)
            removing = threading.Thread(target=sockets.remove_unix, args=(path, identity))
            removing.start()
            os.rename(path, f"{path}.old")
            Path(path).write_text("theirs")
        removing.join()
        assert Path(path).exists()

    def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sockets, "_LOCK_SECONDS", 0.05)
        with sockets._locked(tmp_path):
            sockets.listen_unix(str(tmp_path / "x.sock")).close()
