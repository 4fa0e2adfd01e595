"""Documents of YAML: what they may hold, and how it is said that they cannot be read."""

from __future__ import annotations

import pytest
from koord_model.yaml_documents import yaml_document, yaml_documents


def _aliases(levels: int) -> str:
    """A text that means ten to the power of ``levels`` values."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join([f"a0: &a0 [{', '.join(['x'] * 10)}]", *lines])


def test_documents_and_aliases() -> None:
    assert yaml_documents("a: &x [1, b]\nc: *x\n---\n---\n- d\n") == [
        {"a": [1, "b"], "c": [1, "b"]},
        None,
        ["d"],
    ]
    assert yaml_document("") is None
    yaml_document(_aliases(4))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1\nb: 2", "(line 2, column 2)"),
        ("a: 2020-13-45", "month must be in 1..12"),
        ("a: !!int ''", "a value that cannot be read"),
        ("a: !!timestamp x", "a value that cannot be read"),
        (f"a: !!float {'x' * 9999}", "could not convert"),
        (f"a: {'9' * 5000}", "4300 digits"),
        (f"a: {'[' * 9999}", "nest"),
        ("a: \x1b", "unacceptable character"),
        ("--- 1\n--- 2\n", "2 documents; expected one"),
        ("a: &a [*a]", "its aliases make it too large"),
        (_aliases(9), "its aliases make it too large"),
        (f"a: &a {'x' * 9999}\nb: [{', '.join(['*a'] * 999)}]", "its aliases make it too large"),
        (f"a: &a {{{'x' * 999}: 1}}\nb: [{', '.join(['*a'] * 9999)}]", "aliases make it too large"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_short_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        yaml_document(text)
    said = str(caught.value)
    assert problem in said
    assert said.isprintable()
    assert len(said) < 200
