"""The ``extenders`` of the configuration, checked. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from koord_model import duration
from koord_model.names import is_label_key

from koord_scheduler.arguments.problems import problem, refuse_if
from koord_scheduler.config.component_config import ExtenderConfiguration, ExtenderTLSConfig
from koord_scheduler.extenders.extender import Extender, ExtenderTLS

_DEFAULT_SECONDS = 5.0


def configured_extenders(given: Sequence[ExtenderConfiguration]) -> tuple[Extender, ...]:
    """The extenders in the order in which they are asked: those that may be ignored come last.

    Raises:
        SchedulerConfigError: kube-scheduler would not start with them.
    """
    refuse_if(_problems(given))
    return tuple(map(_extender, sorted(given, key=lambda one: one.ignorable)))


def ignored_resources(given: Sequence[ExtenderConfiguration]) -> tuple[str, ...]:
    """Resources that NodeResourcesFit leaves to extenders."""
    managed = (resource for one in given for resource in one.managed_resources)
    return tuple(one.name for one in managed if one.ignored_by_scheduler)


def _extender(given: ExtenderConfiguration) -> Extender:
    return Extender(
        given.url_prefix,
        given.filter_verb,
        given.prioritize_verb,
        given.preempt_verb,
        given.bind_verb,
        given.weight,
        given.node_cache_capable,
        given.ignorable,
        frozenset(managed_resource.name for managed_resource in given.managed_resources),
        _seconds(given.http_timeout) or _DEFAULT_SECONDS,
        _tls(given.tls_config, trusts_any=given.enable_https),
    )


def _tls(given: ExtenderTLSConfig, *, trusts_any: bool) -> ExtenderTLS:
    """With ``enableHTTPS``, but without a CA, kube-scheduler trusts any certificate."""
    has_ca = bool(given.ca_file or given.ca_data)
    return ExtenderTLS(
        not given.insecure and (has_ca or not trusts_any),
        given.server_name,
        given.ca_file,
        given.cert_file,
        given.key_file,
        given.ca_data,
        given.cert_data,
        given.key_data,
    )


def _problems(given: Sequence[ExtenderConfiguration]) -> Iterator[str]:
    managed: set[str] = set()
    for place, one in enumerate(given):
        path = f"extenders[{place}]"
        if one.prioritize_verb and one.weight <= 0:
            yield problem(f"{path}.weight", one.weight, "a weight above 0 for its prioritizeVerb")
        for number, resource in enumerate(one.managed_resources):
            at = f"{path}.managedResources[{number}].name"
            if not _is_extended_resource(resource.name):
                expected = "an extended resource such as example.com/gpu"
                yield problem(at, resource.name, expected)
            if resource.name in managed:
                yield problem(at, resource.name, "a resource that no other extender manages")
            managed.add(resource.name)
        yield from _connection_problems(one, path)
    binders = [place for place, one in enumerate(given) if one.bind_verb]
    if len(binders) > 1:
        path = f"extenders[{binders[1]}].bindVerb"
        yield problem(path, given[binders[1]].bind_verb, f"none: extenders[{binders[0]}] binds")


def _connection_problems(extender_configuration: ExtenderConfiguration, path: str) -> Iterator[str]:
    try:
        _seconds(extender_configuration.http_timeout)
    except ValueError:
        yield problem(
            f"{path}.httpTimeout",
            extender_configuration.http_timeout,
            "a duration like 5s or 500ms",
        )
    tls = extender_configuration.tls_config
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield problem(f"{path}.tlsConfig.insecure", True, "false with caFile or caData")


def _seconds(text: str) -> float:
    return 0.0 if text == "0" else duration.seconds(text)


def _is_extended_resource(name: str) -> bool:
    """True if its domain is not Kubernetes', and a quota can name it, too."""
    return (
        "/" in name
        and "kubernetes.io/" not in name
        and not name.startswith("requests.")
        and is_label_key(name)
        and is_label_key(f"requests.{name}")
    )
