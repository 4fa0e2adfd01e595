import os
from pathlib import Path

import pytest
from koord_host.kernel import Kernel


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """One whose kernel files are below ``kernel``."""
    (tmp_path / "kernel").mkdir()
    return Kernel((f"{tmp_path}/kernel/",))


def test_reads_all_of_a_file(kernel: Kernel, tmp_path: Path) -> None:
    for size in (0, 10, 2047, 2048, 200_000):
        (tmp_path / "f").write_text("x" * size)
        assert kernel.read(f"{tmp_path}/f") == "x" * size
    (tmp_path / "f").write_bytes(b"\xff\n")
    assert kernel.read(f"{tmp_path}/f") == "�\n"
    assert kernel.read("/proc/self/stat").startswith(f"{os.getpid()} (")


def test_what_is_not_there(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.exists(str(tmp_path))
    assert not kernel.exists(f"{tmp_path}/none")
    assert not kernel.exists("\0")
    for call in (kernel.read, kernel.entries, kernel.identity, kernel.remove_directory):
        with pytest.raises(FileNotFoundError):
            call(f"{tmp_path}/none")


def test_kernel_files_are_written_in_place_and_never_made(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "kernel" / "cpu.shares"
    with pytest.raises(FileNotFoundError):
        kernel.write(str(path), "512")
    path.write_text("1024")
    inode = path.stat().st_ino
    kernel.write(str(path), "5120")
    assert path.read_text() == "5120"
    assert path.stat().st_ino == inode


def test_agents_files_are_replaced(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    kernel.write(str(path), '{"a":1}')
    inode = path.stat().st_ino
    kernel.write(str(path), "{}")
    assert path.read_text() == "{}"
    assert path.stat().st_ino != inode
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kernel", "pod.json"]


def test_an_agents_file_that_cannot_be_replaced(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "pod.json").mkdir()
    with pytest.raises(OSError, match=r"pod\.json"):
        kernel.write(f"{tmp_path}/pod.json", "{}")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kernel", "pod.json"]


def test_directories(kernel: Kernel, tmp_path: Path) -> None:
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
