from collections.abc import Callable

from koordlet.states_informer.state.last_good import LastGood


def raises(error: Exception) -> Callable[[], int]:
    def read() -> int:
        raise error

    return read


def test_a_failed_read_changes_nothing_and_each_reason_is_a_line() -> None:
    lines: list[str] = []
    last: LastGood[int] = LastGood(
        "the file", lines.append, lambda name: lines.append(f"ok {name}")
    )
    assert last.refresh(raises(OSError(24, "Too many open files"))) is None
    assert last.refresh(lambda: 1) == 1
    for error in (OSError(5, "Input/output error"), ValueError("is half a number")):
        for _ in range(2):
            assert last.refresh(raises(error)) == 1
    assert last.refresh(lambda: 2) == last.value == 2
    assert lines == [
        "the file: Too many open files (not known yet)",
        "ok the file",
        "the file: Input/output error (the last good state stays in force)",
        "the file: is half a number (the last good state stays in force)",
        "ok the file",
    ]
