import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from koord_host.resource_executor.journal import (
    LONGEST_DECISION,
    ChangeEntry,
    DecisionEntry,
    Journal,
    decode,
)
from koord_model.times import rfc3339_milli

from tests.support.journals import read, read_events


def change(number: int = 0, group: str = "g", pod: str = "ns/p") -> ChangeEntry:
    return ChangeEntry(
        rfc3339_milli(number), "hooks", group, pod, "cpu.shares", number, "0-3", "why → so"
    )


def decided(outcome: str = "four CPUs", **more: str) -> DecisionEntry:
    given = (("capacity", 16, "cores"), ("threshold", 0.65, ""), ("policy", "cpuset", ""))
    fields = {"group": "g", **more}
    return DecisionEntry(rfc3339_milli(1), "cpu_suppress", "on", outcome, "a × b", given, **fields)


def journal(path: Path, reported: list[str] | None = None, **options: int) -> Journal:
    return Journal(str(path), (reported if reported is not None else []).append, **options)


def test_one_line_a_change(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "journal.jsonl"
    book = journal(path)
    book.add(change(1))
    assert not path.exists()
    book.flush()
    book.add(change(2))
    book.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {
        "time": "1970-01-01T00:00:01.000Z",
        "owner": "hooks",
        "group": "g",
        "pod": "ns/p",
        "knob": "cpu.shares",
        "old": 1,
        "new": "0-3",
        "why": "why → so",
    }
    assert len(lines) == 2
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.parent.stat().st_mode & 0o777 == 0o750


def test_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text("x" * 399 + "\n")  # of an earlier run, and full
    book = journal(path, max_bytes=400, backups=2)
    for number in range(20):
        book.add(change(number))
        book.flush()
    book.close()
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["j", "j.1", "j.2"]
    assert all(file.stat().st_size <= 400 for file in tmp_path.iterdir())
    kept = [one.old for one in read(str(path))]
    assert kept == list(range(20))[-len(kept) :]
    book = journal(path, max_bytes=400, backups=0)
    book.add(change(21))
    book.close()
    assert [file.name for file in tmp_path.iterdir() if file.name == "j"] == ["j"]
    Journal("", print).add(change())  # nothing is kept


@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_is_filled_to_its_last_byte(tmp_path: Path, *, restarts: bool) -> None:
    path, line = tmp_path / "j", len(msgspec.json.encode(change(0))) + 1
    book = journal(path, max_bytes=3 * line)
    for number in range(7):
        if restarts:
            book.close()
            book.close()
            book = journal(path, max_bytes=3 * line)
        book.add(change(number))
        book.flush()
    book.close()
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert sizes == {"j": line, "j.1": 3 * line, "j.2": 3 * line}
    assert [entry.old for entry in read(str(path))] == list(range(7))


def test_the_end_of_half_a_line_counts_too(tmp_path: Path) -> None:
    path, line = tmp_path / "j", len(msgspec.json.encode(change(0))) + 1
    path.write_bytes(b"x" * line)  # a disk was full
    book = journal(path, max_bytes=2 * line)
    book.add(change(0))
    book.close()
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {
        "j": line,
        "j.1": line + 1,
    }


def test_of_one_group_or_pod(tmp_path: Path) -> None:
    path = tmp_path / "j"
    book = journal(path)
    for number, (group, pod) in enumerate([("a", "ns/p"), ("b", "ns/p"), ("a", "ns/q")]):
        book.add(change(number, group, pod))
    book.close()
    assert [one.old for one in read(str(path), group="a")] == [0, 2]
    assert [one.old for one in read(str(path), pod="ns/p")] == [0, 1]
    assert [one.old for one in read(str(path), group="a", pod="ns/p")] == [0]
    assert list(read(f"{path}.none")) == []


def test_lines_that_are_none_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j"
    book = journal(path)
    book.add(change(1))
    book.close()
    with path.open("ab") as file:
        file.write(b'\xff\xfe\n{"time":1}\n\n[]\n{"ti')
    book = journal(path)
    book.add(change(2))
    book.close()
    assert [one.old for one in read(str(path))] == [1, 2]


def test_what_cannot_be_written_is_reported_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reported: list[str] = []
    book = journal(tmp_path / "file" / "j", reported)
    for number in range(3):
        book.add(change(number))
        book.flush()
    [problem] = reported
    assert problem == book.problem == f"{tmp_path}/file/j: File exists"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reported: list[str] = []
    book = journal(tmp_path / "j", reported)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: real(file, data[:10]))
        book.add(change(1))
        book.flush()
    assert "bytes fit" in reported[0]
    book.add(change(2))
    book.flush()
    assert book.problem == ""
    book.close()
    assert [one.old for one in read(str(tmp_path / "j"))] == [2]


def test_decisions_between_changes(tmp_path: Path) -> None:
    path = tmp_path / "j"
    book = journal(path)
    for event in (change(1), decided(), change(2)):
        book.add(event)
    book.close()
    assert json.loads(path.read_text().splitlines()[1]) == {
        "time": "1970-01-01T00:00:01.000Z",
        "strategy": "cpu_suppress",
        "mode": "on",
        "outcome": "four CPUs",
        "formula": "a × b",
        "given": [["capacity", 16, "cores"], ["threshold", 0.65, ""], ["policy", "cpuset", ""]],
        "pod": "",
        "group": "g",
        "aspect": "",
    }
    assert list(read_events(str(path))) == [change(1), decided(), change(2)]
    assert list(read(str(path))) == [change(1), change(2)]
    assert list(read_events(str(path), pod="ns/p")) == [change(1), change(2)]
    assert list(read_events(str(path), group="other")) == []


def test_a_journal_of_an_earlier_release(tmp_path: Path) -> None:
    """It has changes alone."""
    path = tmp_path / "j"
    line = '{"time":"t","owner":"hooks","group":"g","pod":"","knob":"k","old":1,"new":2,"why":"w"}'
    path.write_text(f"{line}\n")
    assert list(read_events(str(path))) == [ChangeEntry("t", "hooks", "g", "", "k", 1, 2, "w")]
    known = decode(b'{"time":"t","strategy":"s","mode":"on","outcome":"o","given":[["a",null,""]]}')
    assert known == DecisionEntry("t", "s", "on", "o", given=(("a", None, ""),))


def test_a_decision_of_too_many_words_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "j"
    given = tuple((f"CPU {number}", "\x01" * 50, "cores") for number in range(400))
    long, book = decided("o" * (LONGEST_DECISION - 400)), journal(path)
    words = "o" * 99_999, "f" * 256, given, "p" * 999, "g", "a"
    book.add(DecisionEntry("t", "s" * 999, "on", *words))
    book.add(long)
    book.close()
    first, second = read_events(str(path))
    assert isinstance(first, DecisionEntry)
    assert first.outcome == f"{'o' * 255}…"
    assert (first.given, first.group, len(first.pod), first.mode) == ((), "g", 256, "on")
    assert first.formula == "f" * 256
    assert second == long
    assert len(path.read_bytes().splitlines()[0]) < LONGEST_DECISION


def test_lines_of_several_threads_are_whole_and_none_is_lost(tmp_path: Path) -> None:
    book = journal(tmp_path / "j", reported := [], max_bytes=4000, backups=1000)

    def write(first: int) -> None:
        for number in range(first, first + 500):
            book.add(change(number))
            book.flush()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(0, 2000, 500)))
    book.close()
    assert reported == []
    assert sorted(str(one.old) for one in read(str(tmp_path / "j"))) == sorted(
        map(str, range(2000))
    )
