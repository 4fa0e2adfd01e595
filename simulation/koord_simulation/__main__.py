"""``koord-simulate``: an entry point that loads nothing before it can say what is missing."""

from __future__ import annotations

from koord_service.programs import start


def main() -> None:
    """The console script."""
    start("koord-simulate", "koord_simulation.main", "koordlet")


if __name__ == "__main__":
    main()
