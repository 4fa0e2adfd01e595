"""``koord-descheduler``: its entry point, which loads nothing before it can say what is missing."""

from __future__ import annotations

from koord_service.programs import start


def main() -> None:
    """The console script."""
    start("koord-descheduler", "koord_descheduler.program.main", "descheduler")


if __name__ == "__main__":
    main()
