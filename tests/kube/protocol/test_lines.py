from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.lines import Lines


@given(st.lists(st.binary(min_size=1).map(lambda one: one.replace(b"\n", b"n"))), st.data())
def test_pieces_make_no_difference(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = Lines()
    assert [line for piece in pieces for line in found.feed(piece)] == [
        line for line in lines if line.strip()
    ]
    assert found.rest == b""


def test_what_no_end_came_for() -> None:
    found = Lines()
    assert found.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert found.rest == b'{"b"'


def test_a_line_without_end() -> None:
    found = Lines(most=4)
    found.feed(b"1234")
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        found.feed(b"5")


def test_lines_before_one_without_end_are_not_lost() -> None:
    found = Lines(most=4)
    assert found.feed(b"1\n12345") == [b"1"]
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        found.feed(b"6\n")
