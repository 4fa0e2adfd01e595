"""The cluster's own rules on pods: the ConfigMap ``pod-enhanced-validator-config``. No IO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from koord_model.excerpt import excerpt
from koord_model.fields import Fields, text
from koord_model.keys import LABEL_SKIP_ENHANCED_VALIDATION

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.view import PodWebhookView

_GATE = "EnablePodEnhancedValidator"
_WHERE = "ConfigMap pod-enhanced-validator-config"
_OUT = "the rule is left out"


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Labels that pods have to have, but in some namespaces."""

    name: str
    labels: tuple[str, ...]
    namespaces: frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelRules:
    """The rules in force, and lines on those that cannot be used."""

    rules: tuple[LabelRule, ...] = ()
    ignored: tuple[str, ...] = ()


def read(data: Mapping[str, str]) -> LabelRules:
    """The rules in the ConfigMap's data; none where they are not enabled."""
    if str(data.get("enable", "")).strip().lower() != "true":
        return LabelRules()
    return _rules(str(data.get("rules", "")))


def problems(pod: PodDocument, namespace: str, view: PodWebhookView) -> tuple[list[str], list[str]]:
    """A line for each label that the pod lacks, and lines on rules that cannot be used."""
    if not view.gates.get(_GATE) or pod.labels.get(LABEL_SKIP_ENHANCED_VALIDATION) == "true":
        return [], []
    rules = read(view.enhanced_validation)
    missing = [
        f"label {excerpt(label)} is missing; expected by rule {excerpt(rule.name)}"
        for rule in rules.rules
        if namespace not in rule.namespaces
        for label in rule.labels
        if label not in pod.labels
    ]
    return missing, list(rules.ignored)


@lru_cache(maxsize=8)
def _rules(written: str) -> LabelRules:
    ignored: list[str] = []
    try:
        listed = json.loads(written) if written.strip() else []
    except (ValueError, RecursionError):
        return LabelRules(
            ignored=(f"{_WHERE} rules: {excerpt(written)} is not valid JSON (no rule is used)",)
        )
    found = [
        _rule(fields) for fields in Fields({"rules": listed}, _WHERE, ignored).objects("rules")
    ]
    return LabelRules(tuple(rule for rule in found if rule is not None), tuple(ignored))


def _rule(fields: Fields) -> LabelRule | None:
    """A rule; left out as a whole where a part of it cannot be used."""
    before = len(fields.ignored)
    rule = LabelRule(
        fields.take("name", "", text, "text", _OUT),
        fields.take("requiredLabels", (), _texts, "a list of text", _OUT),
        frozenset(fields.take("namespaceWhitelist", (), _texts, "a list of text", _OUT)),
    )
    return rule if len(fields.ignored) == before else None


def _texts(given: object) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return tuple(text(item) for item in given)
