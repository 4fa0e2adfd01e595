from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.selectors import (
    EVERYTHING,
    all_of,
    field_is,
    field_is_not,
    label_is,
    named,
)


def test_they_are_as_the_api_has_them() -> None:
    assert all_of(field_is("spec.nodeName", ""), field_is_not("status.phase", "Failed")) == (
        "spec.nodeName=,status.phase!=Failed"
    )
    assert all_of(EVERYTHING, named("n1"), EVERYTHING) == "metadata.name=n1"
    assert label_is("example.com/a", "b") == "example.com/a=b"


@given(st.text(alphabet="ab,=\\!"), st.text(alphabet="ab,=\\!"))
def test_a_value_of_a_field_begins_no_other_condition(first: str, second: str) -> None:
    both = all_of(field_is("a", first), field_is("b", second))
    assert _conditions(both) == [f"a={first}", f"b={second}"]


def _conditions(selector: str) -> list[str]:
    """Split as Kubernetes does (fields.splitTerms), and undo its escapes."""
    found, escaped = [""], False
    for letter in selector:
        if escaped or letter not in "\\,":
            found[-1] += letter
            escaped = False
        elif letter == "\\":
            escaped = True
        else:
            found.append("")
    return found


@pytest.mark.parametrize("value", ["a,b", "a b", "a=b", "a)", "a\n", "-a", "a" * 64, "é"])
def test_a_label_that_cannot_be_selects_nothing_else(value: str) -> None:
    with pytest.raises(ValueError, match="expected a label value"):
        label_is("a", value)
    with pytest.raises(ValueError, match="expected a label key"):
        label_is(value, "a")
