"""``koord-scheduler``: its entry point, which loads nothing before it can say what is missing."""

from __future__ import annotations

from koord_service.programs import start


def main() -> None:
    """The console script."""
    start("koord-scheduler", "koord_scheduler.program.main", "scheduler")


if __name__ == "__main__":
    main()
