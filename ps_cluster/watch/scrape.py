"""Asks processes for their figures, all at the same time and none for longer than a limit."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from prometheus_client.parser import text_string_to_metric_families

from ps_cluster.watch.endpoint import Endpoint

LIMIT_SECONDS = 3.0
_TOGETHER = 32


@dataclass(frozen=True)
class Scraped:
    """What one process answered.

    Attributes:
        endpoint: Who was asked.
        time: Seconds since 1970 of the answer.
        samples: Values by family name and labels, in the order of their names.
        problem: Why there was no answer; None: there was.
    """

    endpoint: Endpoint
    time: float
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    problem: str | None = None

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the one sample of that name that has these labels; None: there is none."""
        return next((value for found, value in self.labelled(name) if labels.items() <= found.items()), None)

    def labelled(self, name: str) -> list[tuple[dict[str, str], float]]:
        """All samples of a name."""
        return [(dict(labels), value) for (found, labels), value in self.samples.items() if found == name]


def scrape(endpoints: Sequence[Endpoint], limit_seconds: float = LIMIT_SECONDS) -> list[Scraped]:
    """One answer for each endpoint, in their order."""
    if not endpoints:
        return []
    with ThreadPoolExecutor(min(len(endpoints), _TOGETHER)) as pool:
        return list(pool.map(lambda one: _scraped(one, limit_seconds), endpoints))


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples of Prometheus' text format."""
    families: Iterable = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in families
        for sample in family.samples
    }


def _scraped(endpoint: Endpoint, limit_seconds: float) -> Scraped:
    try:
        with urllib.request.urlopen(f"http://{endpoint.address}/metrics", timeout=limit_seconds) as answer:
            samples = parsed(answer.read().decode())
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Scraped(endpoint, time.time(), problem=_words(error))
    scraped = Scraped(endpoint, time.time(), samples)
    for labels, _ in scraped.labelled("ps_cluster_process_info"):  # who really serves there
        found = replace(endpoint, role=labels["role"], index=int(labels["index"]))
        if endpoint.role not in ("process", found.role) or (endpoint.role == found.role and endpoint != found):
            return Scraped(endpoint, scraped.time, problem=f"{found.name} serves there now")
        return replace(scraped, endpoint=found)
    return Scraped(endpoint, scraped.time, problem="something else serves there")


def _words(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
