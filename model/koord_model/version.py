"""The version of the distribution, said once, and the commit that a release was built from."""

VERSION = "0.1.0"

COMMIT = "$Format:%H$"
"""Full name of the commit: ``git archive`` writes it here (``.gitattributes``), and no checkout."""


def describe_version(program: str, commit: str = COMMIT) -> str:
    """Return the line that ``--version`` of a program prints."""
    built_from = "a checkout" if commit.startswith("$") else f"commit {commit[:12]}"
    return f"{program} {VERSION} ({built_from})"
