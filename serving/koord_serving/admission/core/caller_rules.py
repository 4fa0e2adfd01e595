"""Rules for accepted callers of webhooks. No IO."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallerRules:
    """A certificate by the authority in ``ca_file``, or a token for ``audience``.

    ``names`` are common names, or users of tokens; none: any certificate by that authority.
    Without a file and an audience everybody may ask.
    """

    ca_file: str = ""
    audience: str = ""
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Rules that protect nothing.

        Raises:
            ValueError: one line, with the settings that the manager has for them.
        """
        if self.names and not (self.ca_file or self.audience):
            raise ValueError(
                "--webhook-client-names needs --webhook-client-ca-file or --webhook-client-audience"
            )
        if self.audience and not self.names:
            raise ValueError(
                "--webhook-client-audience needs --webhook-client-names: every pod can have a "
                "token for any audience"
            )
