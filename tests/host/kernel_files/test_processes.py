"""Processes by what tells them from others of their number; also of the real kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel import KernelFilesystem
from koord_host.kernel_files.processes import (
    STAT,
    Process,
    held,
    in_group,
    is_there,
    parse,
    start_time,
)

from tests.support.node import FakeKernel

GROUP = "kubepods/pod1/c1"
PROCS = f"/sys/fs/cgroup/{GROUP}/cgroup.procs"
_CLONE3 = {"x86_64": 435, "aarch64": 435}


@given(st.text("ab/ @.-:0", min_size=1), st.integers(0, 1 << 22), st.integers(0, 1 << 60))
def test_a_place_says_which_process(group: str, pid: int, start: int) -> None:
    process = Process(group, pid, start)
    assert parse(process.place) == process


@pytest.mark.parametrize(
    ("place", "process"),
    [
        ("kubepods/pod1/c1 7@35", Process("kubepods/pod1/c1", 7, 35)),
        ("7", Process("", 7)),
        ("self", None),
        ("", None),
        ("kubepods/pod1/c1", None),
        ("-7@35", None),
    ],
)
def test_places(place: str, process: Process | None) -> None:
    assert parse(place) == process


class TestListing:
    @pytest.fixture
    def node(self) -> FakeKernel:
        node = FakeKernel(2)
        node.cgroups.make_group(GROUP)
        return node

    def test_names_who_is_in_the_group(self, node: FakeKernel) -> None:
        one, two = node.start_process(GROUP), node.start_process(GROUP)
        assert in_group(node, "/proc", GROUP, PROCS) == (
            Process(GROUP, one, one),
            Process(GROUP, two, two),
        )
        node.remove_group(GROUP)
        assert in_group(node, "/proc", GROUP, PROCS) == ()

    def test_leaves_out_who_was_not_in_it_all_the_time(self, node: FakeKernel) -> None:
        """A number that another pod's process gets between listing and start time."""
        ends, reused, stays = (node.start_process(GROUP) for _ in range(3))
        node.cgroups.make_group("kubepods/pod2")
        real = node.read

        def read(path: str) -> str:
            if path == f"/proc/{ends}/stat":
                node.end_process(ends)
                node.reuse_pid(reused, "kubepods/pod2")
            return real(path)

        node.read = read  # type: ignore[method-assign]
        assert in_group(node, "/proc", GROUP, PROCS) == (Process(GROUP, stays, stays),)


class TestTheRealKernel:
    @pytest.fixture
    def child(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(["sleep", "600"]) as child:
            yield child
            child.kill()

    def test_a_process_that_is_held_can_be_read_and_written(
        self, child: subprocess.Popen[bytes]
    ) -> None:
        with held(KernelFilesystem(), "/proc", the_process(child.pid)) as directory:
            assert directory.write_and_read("oom_score_adj", "901") == "901\n"
            assert directory.read("comm") == KernelFilesystem().read(f"/proc/{child.pid}/comm")
            assert is_there(directory)
            child.kill()
            child.wait()
            assert not is_there(directory)
            with pytest.raises((ProcessLookupError, FileNotFoundError)):
                directory.write_and_read("oom_score_adj", "902")

    def test_another_process_of_the_number_is_never_reached(
        self, child: subprocess.Popen[bytes]
    ) -> None:
        pid, kernel = child.pid, KernelFilesystem()
        before = the_process(pid)
        with held(kernel, "/proc", before) as directory:
            child.kill()
            child.wait()
            started = start_with(pid)
            try:
                found = kernel.read(f"/proc/{pid}/oom_score_adj")
                with pytest.raises((ProcessLookupError, FileNotFoundError)):
                    directory.write_and_read("oom_score_adj", "903")
                with pytest.raises(ProcessLookupError), held(kernel, "/proc", before):
                    pass
                assert the_process(pid) != before
                assert kernel.read(f"/proc/{pid}/oom_score_adj") == found
            finally:
                os.kill(started, signal.SIGKILL)
                os.waitpid(started, 0)

    def test_threads_have_start_times_too(self) -> None:
        assert start_time(KernelFilesystem().read(f"/proc/{os.getpid()}/{STAT}")) > 0


def the_process(pid: int) -> Process:
    return Process("", pid, start_time(KernelFilesystem().read(f"/proc/{pid}/{STAT}")))


class _CloneArguments(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in (
        "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls",
        "set_tid", "set_tid_size",
    ))  # fmt: skip


def start_with(pid: int) -> int:
    """Start a process that sleeps and has this PID, as clone3(2) lets root choose."""
    if os.uname().machine not in _CLONE3:
        pytest.skip("which number clone3(2) has on this machine is not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = ctypes.c_int(pid)
    arguments = _CloneArguments(
        exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1
    )
    size = ctypes.sizeof(arguments)
    number = _CLONE3[os.uname().machine]
    started = int(libc.syscall(number, ctypes.byref(arguments), size))
    if started == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()"])
    code = ctypes.get_errno()
    if started < 0 and code in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
        pytest.skip(f"may not choose PIDs here: {os.strerror(code)}")
    assert started == pid, os.strerror(code)
    return started
