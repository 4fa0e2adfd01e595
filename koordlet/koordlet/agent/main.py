"""The ``koordlet`` program: settings in, a run of the agent, an exit code."""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory

from koord_host.dry_run_files import DryRunFiles
from koord_host.kernel import KernelFilesystem
from koord_service import logs, memory
from koord_service.program_end import run_program
from koord_service.settings import parse_or_exit
from koord_service.tracing import open_tracing

from koordlet.agent.agent import Agent
from koordlet.agent.config import KoordletSettings, in_directory
from koordlet.agent.daemonset_paths import environment
from koordlet.agent.ignored_flags import IGNORED
from koordlet.agent.states_informer import open_states_informer

_SWITCH_SECONDS = 0.0005

log = logs.get_log("koordlet")


def main() -> None:
    """Serve until SIGTERM; exit 2 on settings that cannot be, 1 on a node that refuses."""
    settings = parse_or_exit(
        KoordletSettings,
        prog="koordlet",
        description="Koordinator's node agent: enforces QoS on the node and reports its usage.",
        environ=environment(os.environ, os.path.isdir),
        ignored=IGNORED,
        examples=("koordlet --dry-run --kubeconfig=/etc/kubernetes/kubelet.conf",),
    )
    logs.configure(settings.log_format, settings.log_level)
    IGNORED.report(log)
    memory.limit_arenas()
    # A round must not keep a hook call waiting: Python's own 5 ms are many a call's turns.
    sys.setswitchinterval(_SWITCH_SECONDS)
    run_program("koordlet", _run(settings), log)


async def _run(settings: KoordletSettings) -> None:
    if settings.dry_run:
        # Its books are as in a usual run, and go with it: koordctl events reads them.
        with TemporaryDirectory(prefix="koordlet-dry-run-") as directory:
            await _serve(in_directory(settings, directory))
    else:
        await _serve(settings)


async def _serve(settings: KoordletSettings) -> None:
    # Wherever a container has them mounted: these are written in place.
    mounted = (settings.cgroup_root_dir, settings.proc_root_dir, settings.sys_fs_root_dir)
    kernel = KernelFilesystem(("/proc", "/sys", *mounted))
    cluster = await open_states_informer(settings, os.environ)
    files = DryRunFiles(kernel, _log_write) if settings.dry_run else kernel
    with open_tracing("koordlet", settings) as tracing:
        await Agent(settings, files, cluster, tracing).serve()


def _log_write(path: str, text: str) -> None:
    log.info("would write", file=path, value=text)
