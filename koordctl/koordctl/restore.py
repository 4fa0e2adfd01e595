"""``koordctl restore``: puts back what koordlet found before its first change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from koord_host import detect
from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.layout import Layout
from koord_host.planning.desired_values import Target
from koord_host.resctrl import ResctrlGroups
from koord_host.resource_executor import journal as journal_file
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.journal import ChangeEntry, Journal
from koord_host.resource_executor.restore import (
    OWNER,
    RestoreOutcome,
    RestoreResult,
    foresee,
    restore,
)
from koord_model.times import rfc3339_milli
from koord_service.sqlite_state import InUseError

from koordctl.errors import AskError
from koordctl.output.tables import Block, table
from koordctl.render import clean

CGROUPS = "/sys/fs/cgroup"

_CACHE_GROUP = "resctrl.group"
_SHORT = 60
_COLUMNS = ("WAS", "NOW")
_DRY_COLUMNS = ("NOW", "WOULD BE")
"""Headers for a target's values before and after; in a dry run the first is still so."""
_WORDS = {
    RestoreOutcome.RESTORED: "restored",
    RestoreOutcome.UNCHANGED: "unchanged",
    RestoreOutcome.GONE: "gone",
    RestoreOutcome.SKIPPED: "skipped",
    RestoreOutcome.REFUSED: "refused",
}


def put_back(
    files: KernelFiles,
    state: str,
    say: Callable[[str], None],
    *,
    cgroup_root: str = CGROUPS,
    force: bool = False,
    dry_run: bool = False,
) -> list[RestoreResult]:
    """Restore what the database in a state directory has; the result of each target.

    ``say`` reports problems with the journal, which stop nothing.

    Raises:
        AskError: koordlet runs, there is no such directory, or no cgroups.
    """
    _check(state)
    with ExitStack() as at_exit:
        try:
            layout = detect.layout(files, cgroup_root=cgroup_root)
            baselines = BaselineStore(f"{state}/originals.db", boot=detect.boot(files))
        except detect.DetectError as error:
            raise AskError(str(error)) from None
        except InUseError:
            raise AskError(
                f"{state} is in use: koordlet is running and would write its values again; stop it "
                "first (systemctl stop koordlet), or let it restore when it stops "
                "(koordlet --restore-on-stop)"
            ) from None
        at_exit.callback(baselines.close)
        if baselines.problem:
            raise AskError(baselines.problem)
        if dry_run:
            return [
                *foresee(files, layout, baselines, force=force),
                *map(_removed, _cache_groups(files, layout, baselines, None).ours()),
            ]
        journal = Journal(f"{state}/{journal_file.NAME}", say)
        at_exit.callback(journal.close)
        report = restore(files, layout, baselines, journal, time.time, force=force)
        return report + _remove(_cache_groups(files, layout, baselines, journal))


def _cache_groups(
    files: KernelFiles, layout: Layout, baselines: BaselineStore, journal: Journal | None
) -> ResctrlGroups:
    def record(group: str, what: str, old: str, new: str, why: str) -> None:
        if journal is not None:
            journal.add(
                ChangeEntry(rfc3339_milli(time.time()), OWNER, group, "", what, old, new, why)
            )

    made, keep = baselines.cache_groups, baselines.keep_cache_groups
    return ResctrlGroups(files, layout.resctrl_root, record=record, made=made, keep=keep)


def _remove(groups: ResctrlGroups) -> list[RestoreResult]:
    """Remove the resctrl groups that koordlet has made: their tasks are the root group's then."""
    before, problems = groups.ours(), "; ".join(groups.remove_all_ours())
    left = frozenset(groups.ours())
    return [_removed(group) if group not in left else _stays(group, problems) for group in before]


def _removed(group: str) -> RestoreResult:
    return RestoreResult(Target(group, _CACHE_GROUP), RestoreOutcome.RESTORED, "present", "absent")


def _stays(group: str, reason: str) -> RestoreResult:
    return RestoreResult(
        Target(group, _CACHE_GROUP), RestoreOutcome.REFUSED, "present", "present", reason
    )


def report_lines(report: Sequence[RestoreResult], *, dry_run: bool = False) -> Iterator[Block]:
    """Describe the restored targets for people; those without news are only counted."""
    if not report:
        yield "Nothing to restore: no change by koordlet is still in place."
        return
    shown = [
        result
        for result in report
        if result.outcome not in (RestoreOutcome.GONE, RestoreOutcome.UNCHANGED)
    ]
    if shown:
        values = _DRY_COLUMNS if dry_run else _COLUMNS
        header = ("GROUP", "KNOB", *values, "RESULT")
        yield table([header, *(_row(result, dry_run) for result in shown)])
        yield ""
    yield _summary(report, dry_run)


def document(report: Sequence[RestoreResult]) -> list[dict[str, Any]]:
    """The same for programs: one object a target."""
    return [
        {
            "group": result.target.place,
            "knob": result.target.knob,
            "fate": result.outcome.value,
            "old": result.old,
            "new": result.new,
            "reason": result.reason,
        }
        for result in report
    ]


def _check(state: str) -> None:
    try:
        there = (Path(state) / "originals.db").exists()
    except OSError as error:
        raise AskError(f"{state}: {error.strerror}; run as root") from None
    if not there:
        raise AskError(
            f"{state} has no originals.db: koordlet has not run here, or keeps it elsewhere "
            "(name its --state-dir with --state)"
        )


def _row(result: RestoreResult, dry_run: bool) -> tuple[str, str, str, str, str]:
    restored = result.outcome is RestoreOutcome.RESTORED
    fate = "would be restored" if restored and dry_run else _WORDS[result.outcome]
    if result.reason:
        fate = f"{fate}: {result.reason}"
    after = result.new if restored else result.old
    return (
        _shown(result.target.place),
        _shown(result.target.knob),
        _shown(result.old),
        _shown(after),
        _shown(fate, longest=400),
    )


def _shown(value: object, longest: int = _SHORT) -> str:
    """One line without control characters."""
    if value is None:
        return "?"
    line = clean(str(value))
    return line if len(line) <= longest else f"…{line[1 - longest :]}"


def _summary(report: Sequence[RestoreResult], dry_run: bool) -> str:
    counts = {fate: sum(result.outcome is fate for result in report) for fate in RestoreOutcome}
    restored = "would be restored" if dry_run else "restored"
    words = [f"{counts[RestoreOutcome.RESTORED]} {restored}"]
    if counts[RestoreOutcome.UNCHANGED]:
        words.append(f"{counts[RestoreOutcome.UNCHANGED]} unchanged")
    if counts[RestoreOutcome.GONE]:
        words.append(f"{counts[RestoreOutcome.GONE]} in cgroups that no longer exist")
    if counts[RestoreOutcome.SKIPPED]:
        words.append(f"{counts[RestoreOutcome.SKIPPED]} skipped (--force restores it)")
    if counts[RestoreOutcome.REFUSED]:
        words.append(f"{counts[RestoreOutcome.REFUSED]} refused by the kernel")
    return f"{', '.join(words)}."
