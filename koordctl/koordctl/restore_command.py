"""Arguments of ``koordctl restore``, and its run."""

from __future__ import annotations

import argparse
from functools import partial

from koord_service.terminal import write_error

from koordctl.output.result import CommandOutput

_STATE, _CGROUPS = "/var/lib/koordlet", "/sys/fs/cgroup"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is restored, and where koordlet keeps its state."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--force", action="store_true", help="also restore files that something else changed since"
    )
    parser.add_argument(
        "--state",
        default=_STATE,
        metavar="PATH",
        help="koordlet's --state-dir (default: %(default)s)",
    )
    parser.add_argument(
        "--cgroup-root-dir",
        default=_CGROUPS,
        metavar="PATH",
        help="koordlet's --cgroup-root-dir (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Restore, and report each target. Raises AskError."""
    # Imported late: the kernel's knobs cost a tenth of a second, which no other command needs.
    from koord_host.resource_executor.restore import RestoreOutcome

    from koordctl.restore import document, put_back, report_lines

    root = arguments.cgroup_root_dir
    report = put_back(
        arguments.kernel(("/proc", "/sys", root)),
        arguments.state,
        partial(write_error, "koordctl"),
        cgroup_root=root,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    refused = any(result.outcome is RestoreOutcome.REFUSED for result in report)
    blocks = report_lines(report, dry_run=arguments.dry_run)
    return CommandOutput(document(report), blocks, "" if refused else None)
