"""The programs of this node as ``koordctl status`` shows them. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from koordctl.doctor.check_results import CheckResult, Level
from koordctl.doctor.node_checks import check_node
from koordctl.doctor.node_survey import NodeSurvey
from koordctl.program_state import ProgramHealth, ProgramProblem, ProgramState

_PLACE = "node"
_PROXY, _KOORDLET, _DAEMON = "koord-runtime-proxy", "koordlet", "koord-device-daemon"
_BAD = (Level.PROBLEM, Level.WARNING)


def node_states(survey: NodeSurvey, device_files: Sequence[CheckResult]) -> list[ProgramState]:
    """Proxy, koordlet and device daemon; ``device_files`` are results about the daemon's files."""
    results = [*check_node(survey), *device_files]
    return [
        _proxy(survey, results),
        _koordlet(survey, results),
        *_device_daemon(survey, results, is_used=bool(device_files)),
    ]


def calls_hooks(survey: NodeSurvey) -> bool:
    """True if the proxy answers, or koordlet is connected to NRI."""
    return survey.proxy is not None or _uses_nri(survey)


def _uses_nri(survey: NodeSurvey) -> bool:
    return survey.koordlet is not None and survey.koordlet.hooks.nri.connected


def _proxy(survey: NodeSurvey, results: Iterable[CheckResult]) -> ProgramState:
    proxy, problems = survey.proxy, list(_problems(results, _PROXY))
    if proxy is None:
        if _uses_nri(survey):
            return ProgramState(_PROXY, _PLACE, ProgramHealth.ABSENT, mode="koordlet uses NRI")
        problems = problems or [ProgramProblem(survey.proxy_error)]
        return ProgramState(_PROXY, _PLACE, ProgramHealth.DOWN, problems=problems)
    health = ProgramHealth.OK if proxy.status == "ok" else ProgramHealth.DEGRADED
    return ProgramState(_PROXY, _PLACE, health, proxy.version, proxy.started_at, problems=problems)


def _koordlet(survey: NodeSurvey, results: Iterable[CheckResult]) -> ProgramState:
    koordlet, problems = survey.koordlet, list(_problems(results, _KOORDLET))
    if koordlet is None:
        return ProgramState(_KOORDLET, _PLACE, ProgramHealth.DOWN, problems=problems)
    return ProgramState(
        *(_KOORDLET, _PLACE),
        ProgramHealth.OK if koordlet.health.status == "ok" else ProgramHealth.DEGRADED,
        koordlet.version,
        koordlet.started_at,
        mode=koordlet.mode,
        problems=problems,
    )


def _device_daemon(
    survey: NodeSurvey, results: Iterable[CheckResult], *, is_used: bool
) -> Iterator[ProgramState]:
    """The daemon has no page by default: its unit and its files say how it is."""
    has_unit = f"{_DAEMON}.service" in survey.units
    if has_unit or is_used:
        problems = list(_problems(results, _DAEMON))
        health = ProgramHealth.DEGRADED if problems else ProgramHealth.OK
        yield ProgramState(_DAEMON, _PLACE, health, problems=problems)


def _problems(results: Iterable[CheckResult], program: str) -> Iterator[ProgramProblem]:
    for result in results:
        if result.about == program and result.level in _BAD:
            yield ProgramProblem(result.text, result.way_out)
