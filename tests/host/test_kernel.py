import contextlib
import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_host.kernel import KernelFilesystem


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFilesystem:
    """One whose kernel files are below ``kernel``."""
    (tmp_path / "kernel").mkdir()
    return KernelFilesystem((f"{tmp_path}/kernel/",))


def test_reads_all_of_a_file(kernel: KernelFilesystem, tmp_path: Path) -> None:
    for size in (0, 10, 2047, 2048, 200_000):
        (tmp_path / "f").write_text("x" * size)
        assert kernel.read(f"{tmp_path}/f") == "x" * size
    (tmp_path / "f").write_bytes(b"\xff\n")
    assert kernel.read(f"{tmp_path}/f") == "�\n"
    assert kernel.read("/proc/self/stat").startswith(f"{os.getpid()} (")


def test_a_process_s_nice_value_is_a_file() -> None:
    kernel = KernelFilesystem()
    with subprocess.Popen(["sleep", "60"]) as child:
        own = kernel.read(f"/proc/{child.pid}/nice")
        with kernel.held(f"/proc/{child.pid}") as directory:
            assert directory.write_and_read("nice", "19") == "19\n"
        assert (int(own), os.getpriority(os.PRIO_PROCESS, child.pid)) == (os.nice(0), 19)
        child.kill()


@contextlib.contextmanager
def mapped(file: int, address: int) -> Iterator[None]:
    """A page of a file at an address of this process where nothing is; -1: of no file."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | _FIXED_NOREPLACE | (mmap.MAP_ANONYMOUS if file < 0 else 0)
    arguments = (ctypes.c_void_p(address), mmap.PAGESIZE, mmap.PROT_READ, flags, file)
    found = libc.mmap(*arguments, ctypes.c_long(0))
    assert found == address, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        libc.munmap(ctypes.c_void_p(address), mmap.PAGESIZE)


_FIXED_NOREPLACE = 0x100000
_LOWEST = 1 << 20  # below all that a process has by itself


def test_reads_on_where_the_kernel_gives_little_at_a_time(tmp_path: Path) -> None:
    """A read of /proc/PID/maps ends where the next record does not fit, wherever that is."""
    deep = tmp_path
    while (left := 4_050 - len(str(deep))) > 0:
        deep /= "d" * min(left, 200)
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    file = os.open(deep / "f", os.O_RDONLY)
    try:
        with mapped(-1, _LOWEST), mapped(file, _LOWEST + 2 * mmap.PAGESIZE):
            with open("/proc/self/maps", "rb", buffering=0) as raw:
                assert len(raw.read(1 << 16) or b"") < 200, "the kernel gives all at once"
            text = KernelFilesystem().read("/proc/self/maps")
    finally:
        os.close(file)
    assert str(deep / "f") in text
    assert "[stack]" in text


def test_what_is_not_there(kernel: KernelFilesystem, tmp_path: Path) -> None:
    assert kernel.exists(str(tmp_path))
    assert not kernel.exists(f"{tmp_path}/none")
    assert not kernel.exists("\0")
    for call in (kernel.read, kernel.entries, kernel.identity, kernel.remove_directory):
        with pytest.raises(FileNotFoundError):
            call(f"{tmp_path}/none")


def test_kernel_files_are_written_in_place_and_never_made(
    kernel: KernelFilesystem, tmp_path: Path
) -> None:
    path = tmp_path / "kernel" / "cpu.shares"
    with pytest.raises(FileNotFoundError):
        kernel.write(str(path), "512")
    path.write_text("1024")
    inode = path.stat().st_ino
    kernel.write(str(path), "5120")
    assert path.read_text() == "5120"
    assert path.stat().st_ino == inode


def test_agents_files_are_replaced(kernel: KernelFilesystem, tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    kernel.write(str(path), '{"a":1}')
    inode = path.stat().st_ino
    kernel.write(str(path), "{}")
    assert path.read_text() == "{}"
    assert path.stat().st_ino != inode
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=r"pod\.json"):
        kernel.write(str(path), "{}")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kernel", "pod.json"]


def test_directories(kernel: KernelFilesystem, tmp_path: Path) -> None:
    kernel.make_directory(f"{tmp_path}/b")
    kernel.make_directory(f"{tmp_path}/a")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert kernel.entries(str(tmp_path)) == ["a", "b", "kernel"]
    assert kernel.identity(f"{tmp_path}/a") == (tmp_path / "a").stat().st_ino
    with pytest.raises(FileExistsError):
        kernel.make_directory(f"{tmp_path}/a")
    kernel.remove_directory(f"{tmp_path}/a")
    assert not kernel.exists(f"{tmp_path}/a")
