"""Tables of the reference, made of definitions while the site is built: nothing of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.docs_site.reference import commands, custom_resources, gates, monitoring, programs

TABLES: Mapping[str, Callable[[], str]] = {
    "custom-resources": custom_resources.markdown,
    "gates": gates.markdown,
    "metrics": monitoring.metrics,
    "alerts": monitoring.alerts,
    "flags": programs.markdown,
    "commands": commands.markdown,
}
"""The Markdown of each."""
