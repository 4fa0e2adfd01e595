"""One write: guarded, handed to the kernel, and where it is refused, explained."""

from __future__ import annotations

import contextlib
import errno
import os

from koord_model import cpuset

from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import FileReader, KernelFiles
from koord_host.knobs.forms import CPUS, Form, Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import BURST, IDLE, LIMIT, MEMSW, PERIOD, QUOTA, SHARES
from koord_host.resource_executor import place_identity

_CURRENT, _RECLAIM = "memory.current", "memory.reclaim"


def write(
    files: KernelFiles, layout: Layout, target: Target, value: Value, *, reclaims: bool = True
) -> str:
    """Have the kernel take a value, in one write or one a line; the file's text then.

    Of a process only while it is in the group in which it was listed. ``reclaims`` is whether
    memory that is in the way of a limit is freed, which may take long.

    Raises:
        OSError: refused, or gone; the errno says which.
    """
    knob = KNOBS[target.knob]
    if knob.where is PlaceKind.PROCESS and not place_identity.is_member(
        files, layout, target.place
    ):
        raise ProcessLookupError(errno.ESRCH, "is no longer in the group", target.place)
    return _write(files, layout, target, value, reclaims)


def _write(files: KernelFiles, layout: Layout, target: Target, value: Value, reclaims: bool) -> str:
    knob = KNOBS[target.knob]
    path = layout.path(knob, target.place)
    form = layout.form(knob, target.place)
    if knob.where is PlaceKind.PROCESS:
        return _write_to_process(files, layout, target, form.encode(value, ""))
    if form.lines is not None:
        return _write_lines(files, path, form, value)
    if target.knob == LIMIT and layout.version == 2:
        _make_room(files, path, value, reclaims)
    # On cgroup v2 the file holds the quota too.
    current = files.read(path) if target.knob == PERIOD else ""
    return files.write_and_read(path, form.encode(value, current))


def once(files: KernelFiles, layout: Layout, target: Target, value: Value) -> None:
    """Write a file that cannot be read.

    Raises:
        OSError: refused, or gone; the errno says which.
    """
    knob = KNOBS[target.knob]
    text = layout.form(knob, target.place).encode(value, "")
    files.write(layout.path(knob, target.place), text)


def put_back(
    files: KernelFiles, layout: Layout, target: Target, found: Value, *, reclaims: bool = True
) -> tuple[str, Value]:
    """Have the kernel take again what was found once; the file's text then, and what it took.

    A group with tasks that had no CPUs of its own cannot have none again on v2 (Linux 6.1
    says ENOSPC): it gets all that any group above it has, and so runs on what they allow, now
    and when they are allowed more. (There the kernel takes CPUs that the group above has not.)

    Raises:
        OSError: as ``write`` does.
    """
    try:
        return _write(files, layout, target, found, reclaims), found
    except OSError as error:
        if error.errno != errno.ENOSPC or found != "" or layout.version != 2:
            raise
    allowed = _allowed_above(files, layout, target)
    return write(files, layout, target, allowed), allowed


def _write_to_process(files: KernelFiles, layout: Layout, target: Target, text: str) -> str:
    """Write to the process that was meant, never to one that has its number now."""
    process = processes.parse(target.place)
    if process is None:
        raise FileNotFoundError(errno.ENOENT, f"{target.place} is not a process")
    with processes.held(files, layout.proc_root, process) as directory:
        return directory.write_and_read(KNOBS[target.knob].v1, text)


def _allowed_above(files: FileReader, layout: Layout, target: Target) -> str:
    parts = target.place.split("/")
    paths = (layout.group_path("/".join(parts[:count]), "") for count in range(len(parts)))
    found = (cpuset.parse(files.read(f"{path}/{target.knob}.effective")) for path in paths)
    return cpuset.render(frozenset().union(*found))


def _write_lines(files: KernelFiles, path: str, form: Form, value: Value) -> str:
    current = text = files.read(path)
    for line in form.lines(str(value), current) if form.lines else ():
        text = files.write_and_read(path, line)
    return text


def excess(files: FileReader, layout: Layout, target: Target, value: Value) -> int:
    """Bytes in use above a limit that is to be set."""
    return max(usage(files, layout, target) - int(value), 0)


def _make_room(files: KernelFiles, path: str, value: Value, reclaims: bool) -> None:
    """See that a group's pages fit below its new ``memory.max``.

    Where they do not, cgroup v2 frees what it can and kills for the rest; v1 refuses
    with EBUSY. Ours refuses too, on both: a limit must not kill. Pages
    taken between this check and the write can still cost a process its life.

    Raises:
        OSError: EBUSY; pages that cannot be freed are in the way.
    """
    directory = path.rpartition("/")[0]
    limit = int(value)
    if limit < 0 or _usage(files, directory) <= limit:
        return
    if reclaims:
        # Missing before Linux 5.19; EAGAIN if it frees less than requested.
        with contextlib.suppress(OSError):
            over = _usage(files, directory) - limit
            files.write(f"{directory}/{_RECLAIM}", str(over))
    usage = _usage(files, directory)
    if usage > limit:
        how = "cannot be freed" if reclaims else "are to be freed first"
        raise OSError(errno.EBUSY, f"{usage} bytes are in use and {how}", path)


def usage(files: FileReader, layout: Layout, target: Target) -> int:
    """Bytes of memory in use by a target's group; 0 where that cannot be read."""
    return _usage(files, layout.path(KNOBS[target.knob], target.place).rpartition("/")[0])


def _usage(files: FileReader, directory: str) -> int:
    try:
        return int(files.read(f"{directory}/{_CURRENT}"))
    except (OSError, ValueError):
        # The root group has no such file, and no limit either.
        return 0


def explain(files: FileReader, layout: Layout, target: Target, value: Value, error: OSError) -> str:
    """Explain the kernel's refusal as far as known: one line that names the conflicting group."""
    words = error.strerror or os.strerror(error.errno or 0)
    detail = ""
    with contextlib.suppress(OSError, ValueError):
        detail = _Surroundings(files, layout, target).detail(value, error.errno or 0)
    return f"{words}: {detail}" if detail else words


class _Surroundings:
    """The groups around a target, and the knobs beside it."""

    def __init__(self, files: FileReader, layout: Layout, target: Target) -> None:
        self._files = files
        self._layout = layout
        self._target = target
        self._knob = KNOBS[target.knob]

    def detail(self, value: Value, code: int) -> str:
        if self._knob.v1_form is CPUS and code in (errno.EBUSY, errno.EACCES):
            return self._cpus(value, code)
        if self._target.knob in (QUOTA, PERIOD, BURST) and code == errno.EINVAL:
            return self._bandwidth(value)
        if self._target.knob == SHARES and self._beside(IDLE) == 1:
            return f"{IDLE} is 1"
        if self._target.knob == LIMIT and code == errno.EINVAL and self._layout.version == 1:
            return f"{MEMSW} is {self._beside(MEMSW)}"
        if self._target.knob == MEMSW and code == errno.EINVAL:
            return f"{LIMIT} is {self._beside(LIMIT)}"
        return ""

    def _cpus(self, value: Value, code: int) -> str:
        wanted = cpuset.parse(str(value))
        if code == errno.EACCES:
            above = str(self._value(self._target.place.rpartition("/")[0], self._target.knob))
            return "" if wanted <= cpuset.parse(above) else f"the group above has only {above!r}"
        for child in self._children():
            cpus = str(self._value(child, self._target.knob))
            if not cpuset.parse(cpus) <= wanted:
                return f"{child} has {cpus}"
        return ""

    def _bandwidth(self, value: Value) -> str:
        quota, burst = self._beside(QUOTA), self._beside(BURST)
        quota = value if self._target.knob == QUOTA else quota
        burst = value if self._target.knob == BURST else burst
        if isinstance(burst, int) and isinstance(quota, int) and 0 <= quota < burst:
            return f"{BURST} {burst} is more than {QUOTA} {quota}"
        above = self._target.place.rpartition("/")[0]
        while above:
            limit = self._value(above, QUOTA)
            if limit != -1:
                return f"{above} has {QUOTA} {limit}; groups below may have up to their share"
            above = above.rpartition("/")[0]
        below = [child for child in self._children() if self._value(child, QUOTA) != -1]
        return f"{below[0]} has {QUOTA} {self._value(below[0], QUOTA)}" if below else ""

    def _children(self) -> list[str]:
        place = self._target.place
        directory = self._layout.group_path(place, self._knob.subsystem)
        return [f"{place}/{name}" for name in self._files.entries(directory)]

    def _beside(self, name: str) -> Value:
        return self._value(self._target.place, name)

    def _value(self, place: str, name: str) -> Value:
        knob = KNOBS[name]
        text = self._files.read(self._layout.path(knob, place))
        return self._layout.form(knob, place).decode(text)
