"""What is wrong with a text that is not YAML, in a line; without the library for YAML. No IO."""

from __future__ import annotations


def yaml_problem(error: Exception) -> str:
    """What and where: "expected ',' or ']', but got ':' (line 2, column 5)".

    PyYAML's own text of an error has several lines, and names the text "<unicode string>".
    """
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    context, problem = (getattr(error, name, None) for name in ("context", "problem"))
    text = ", ".join(one for one in (context, problem) if one)
    return f"{text} (line {mark.line + 1}, column {mark.column + 1})"
