"""Documents of YAML, bounded, and in a line what is wrong with a text that has none. No IO."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, where PyYAML was built with it: ten times as fast."""
_REPEATED = 1 << 20
"""Largest number of bytes that aliases may add: a few hundred bytes can mean billions."""
_REASON = 100  # characters of what may quote the value


def yaml_documents(text: str | bytes) -> list[object]:
    """All documents of a text; an empty one is None.

    Raises:
        ValueError: it is not valid YAML; one line with what and where: "expected ',' or ']', but
            got ':' (line 2, column 5)".
    """
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise ValueError(_problem(error)) from None
    # Of a value that is not what it looks like or is tagged as, as "2020-13-45" and "!!int ''",
    # PyYAML's own code fails in whatever way it happens to.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"a value that cannot be read ({str(error)[:_REASON]!r})") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    check_aliases(documents, len(text))
    return documents


def yaml_document(text: str | bytes) -> object:
    """The document of a text, None if it is empty.

    Raises:
        ValueError: as of ``yaml_documents``, or there are more.
    """
    documents = yaml_documents(text)
    if len(documents) > 1:
        raise ValueError(f"{len(documents)} documents; expected one")
    return documents[0] if documents else None


def check_aliases(documents: Iterable[object], text_size: int) -> None:
    """Refuse what is much larger than its text was, for whom each alias is a value again.

    Raises:
        ValueError: it is, or has no end.
    """
    most = text_size + _REPEATED
    rest: list[object] = [*documents]
    size = 0
    while rest:
        value = rest.pop()
        size += 1 + (len(value) if isinstance(value, (str, bytes)) else 0)
        if size > most:
            raise ValueError("its aliases make it too large")
        if isinstance(value, dict):
            rest += value
            rest += value.values()
        elif isinstance(value, (list, tuple, set)):
            rest += value


def _problem(error: yaml.YAMLError) -> str:
    """PyYAML's own text has several lines, and names the text "<unicode string>"."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())[:_REASON]
    context, problem = (getattr(error, name, None) for name in ("context", "problem"))
    text = ", ".join(text for text in (context, problem) if text)
    return f"{text[:_REASON]} (line {mark.line + 1}, column {mark.column + 1})"
