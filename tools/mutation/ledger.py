"""Results of earlier trials, so that a run goes on where the last one ended."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Trials:
    """Test files that were tried on one fault, by the digests that they had."""

    killers: dict[str, str] = field(default_factory=dict)
    blind: dict[str, str] = field(default_factory=dict)
    """Test files that run the place and do not notice."""


class Ledger:
    """Trials by module and fault; a module that changes begins again."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._modules: dict[str, tuple[str, dict[str, Trials]]] = {}
        self._digests: dict[str, str] = {}
        if path.exists():
            for module, (digest, trials) in json.loads(path.read_text(encoding="utf-8")).items():
                self._modules[module] = (
                    digest,
                    {key: Trials(*trial) for key, trial in trials.items()},
                )

    def trials(self, module: str, fault: str) -> Trials:
        """Those of one fault, by its words."""
        digest, trials = self._modules.get(module, ("", {}))
        if digest != self.digest(module):
            trials = {}
            self._modules[module] = self.digest(module), trials
        return trials.setdefault(fault, Trials())

    def note(self, trials: Trials, test: str, *, killed: bool) -> None:
        (trials.killers if killed else trials.blind)[test] = self.digest(test)

    def is_known(self, trials: Trials, test: str) -> bool:
        """A file that has not changed since it was tried."""
        return self.digest(test) in (trials.killers.get(test), trials.blind.get(test))

    def digest(self, file: str) -> str:
        if file not in self._digests:
            content = (self._root / file).read_bytes()
            self._digests[file] = hashlib.sha256(content).hexdigest()[:12]
        return self._digests[file]

    def save(self) -> None:
        modules = {
            module: (digest, {key: (trial.killers, trial.blind) for key, trial in trials.items()})
            for module, (digest, trials) in sorted(self._modules.items())
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(modules, indent=0), encoding="utf-8")
        new.replace(self._path)
