"""What a Job says of its pods' ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DISRUPTED = "DisruptionTarget"


@dataclass(frozen=True)
class PodEnd:
    """How a pod ended. exit_codes: by container. disrupted: it was drained, evicted or pre-empted."""

    exit_codes: Mapping[str, int]
    disrupted: bool = False

    @property
    def succeeded(self) -> bool:
        return all(code == 0 for code in self.exit_codes.values())


@dataclass(frozen=True)
class FailureRule:
    """One rule of a podFailurePolicy: for exit codes (operator In, NotIn) of `container` (None: of any), or for
    disruptions. action: FailJob, FailIndex, Ignore, Count."""

    action: str
    container: str | None = None
    operator: str | None = None
    codes: tuple[int, ...] = ()
    disruptions: bool = False

    def meets(self, end: PodEnd) -> bool:
        """Whether it is a rule for this end."""
        if self.disruptions:
            return end.disrupted
        codes = [
            code
            for name, code in end.exit_codes.items()
            if code != 0 and (self.container is None or name == self.container)
        ]
        return any((code in self.codes) == (self.operator == "In") for code in codes)


@dataclass(frozen=True)
class JobRules:
    """Of a Job. `deadline_seconds` from its start; `backoff_limit_per_index` None: failures count for all together."""

    completions: int = 1
    parallelism: int = 1
    indexed: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    failure_rules: tuple[FailureRule, ...] = ()
    deadline_seconds: float | None = None
