"""Go's flags that have no meaning here, in all the ways that Go takes them."""

from __future__ import annotations

import pytest
from koord_service.go_flags import KLOG, GoFlagError, GoFlags, go_flags

FLAGS = go_flags(values=["sync-period"], switches=["enable-pprof"])


@pytest.mark.parametrize(
    ("given", "ours", "ignored"),
    [
        ([], [], []),
        (["--sync-period=0"], [], ["--sync-period"]),
        (["-sync-period", "0", "--name=x"], ["--name=x"], ["--sync-period"]),
        (["--sync-period", "--name=x"], [], ["--sync-period"]),
        (["--sync-period=", "--sync-period=1"], [], ["--sync-period"]),
        # A boolean's value is never the next word.
        (["-enable-pprof", "stray"], ["stray"], ["--enable-pprof"]),
        (["--enable-pprof=false"], [], ["--enable-pprof"]),
        (["--log_dir=/x", "--log-dir", "/y"], [], ["--log-dir"]),
        (["-logtostderr=true", "--vmodule", "a=5"], [], ["--logtostderr", "--vmodule"]),
        (["enable-pprof", "--", "---v"], ["enable-pprof", "--", "---v"], []),
        (["--name", "x"], ["--name", "x"], []),
    ],
)
def test_split(given: list[str], ours: list[str], ignored: list[str]) -> None:
    assert FLAGS.split(given) == (ours, ignored)


@pytest.mark.parametrize(
    ("given", "level"),
    [
        (["--v=4"], []),
        (["-v", "0"], []),
        (["-v4"], []),
        (["-v=-1"], []),
        (["-v=5"], ["--log-level=debug"]),
        (["--v", "10"], ["--log-level=debug"]),
        (["-v6"], ["--log-level=debug"]),
        (["-v=6", "-v=2"], []),
    ],
)
def test_verbosity_is_a_level(given: list[str], level: list[str]) -> None:
    # First, so that a --log-level of one's own wins.
    words = ["--log-level=error"]
    assert FLAGS.split([*words, *given]) == ([*level, *words], [])


@pytest.mark.parametrize("given", [["--sync-period"], ["-v"], ["-v="], ["--v=much"], ["-v=4.5"]])
def test_what_go_refuses(given: list[str]) -> None:
    with pytest.raises(GoFlagError, match=given[0].partition("=")[0].lstrip("-")):
        FLAGS.split(given)


def test_who_ignores_nothing_has_no_v() -> None:
    assert GoFlags().split(["-v=4", "-v4"]) == (["-v=4", "-v4"], [])


def test_klog_is_whole() -> None:
    # What klog.InitFlags of k8s.io/klog/v2 2.130.1 defines.
    names = (
        "add_dir_header alsologtostderr log_backtrace_at log_dir log_file log_file_max_size "
        "logtostderr one_output skip_headers skip_log_headers stderrthreshold v vmodule"
    )
    assert {name.replace("_", "-") for name in names.split()} == KLOG.names
