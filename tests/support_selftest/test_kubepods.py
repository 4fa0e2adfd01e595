"""Groups of a run that was killed do not fail the next one; others' groups are not touched."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.kubepods import CGROUPS, ROOT, Kubepods, why_not

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
KILLED_RUN = f"""
import os, subprocess
from koord_model.qos import KubeQoS
from tests.support.kubepods import CGROUPS, Kubepods
pod = Kubepods().__enter__().make_pod(KubeQoS.BEST_EFFORT, "left")
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
(CGROUPS / "cpu" / pod / "cgroup.procs").write_text(str(left.pid))
os.kill(os.getpid(), {signal.SIGKILL.value})
"""


def test_groups_of_a_killed_run_are_removed_with_their_processes() -> None:
    run = subprocess.run((sys.executable, "-c", KILLED_RUN), check=False)
    assert run.returncode == -signal.SIGKILL
    assert (CGROUPS / "cpu" / ROOT / "besteffort" / "podleft").exists()
    with Kubepods():
        assert not (CGROUPS / "cpu" / ROOT / "besteffort" / "podleft").exists()


def test_groups_that_no_test_made_are_not_touched() -> None:
    with Kubepods():
        pass  # whatever an earlier run has left is gone
    kubelets = CGROUPS / "cpu" / ROOT
    kubelets.mkdir()
    try:
        with pytest.raises(RuntimeError, match="not made by a test"):
            Kubepods().__enter__()
        assert kubelets.exists()
    finally:
        kubelets.rmdir()
