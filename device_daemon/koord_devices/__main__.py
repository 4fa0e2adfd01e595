"""``koord-device-daemon``: an entry point that loads nothing before it can say what is missing."""

from __future__ import annotations

from koord_service.programs import start


def main() -> None:
    """The console script."""
    start("koord-device-daemon", "koord_devices.main", "devices")


if __name__ == "__main__":
    main()
