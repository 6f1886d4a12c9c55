"""A real Prometheus that scrapes every second."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import yaml

from testbed.api_client import ApiError, http_text
from testbed.binaries import Binaries
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.waiting import NotInTime, wait_until

_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an instant query's answer."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """One server, on a port that stays the same over :meth:`kill` and :meth:`start`.

    Args:
        binaries: where the program is.
        directory: for configuration, data and log; made if missing.
        targets: ``host:port`` of exporters; their own ``namespace`` and ``pod`` labels are honoured.
        jobs: more scrape configurations, as in Prometheus' file.
        days: samples of so many days are kept, and may come late; 0: of six hours, in their order.
        rules: files of rules, evaluated every second.
    """

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        targets: Sequence[str],
        *,
        jobs: Sequence[Mapping[str, Any]] = (),
        days: int = 0,
        rules: Sequence[Path] = (),
    ) -> None:
        self._reservation = PortReservation()
        port = self._reservation.take()
        self.url = f"http://127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "prometheus.yaml"
        config.write_text(prometheus_configuration(targets, jobs, days, rules))
        self._child = Child(
            "prometheus",
            [
                str(binaries["prometheus"]),
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--storage.tsdb.retention.time={f'{days}d' if days else '6h'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            log=directory / "prometheus.log",
            directory=directory,
        )

    def start(self) -> Self:
        """Start, and wait until queries are answered. Raises NotInTime with the end of its log."""
        self._child.start()
        try:
            wait_until(self._is_ready, _READY_SECONDS, "Prometheus ready")
        except NotInTime as error:
            raise NotInTime(f"{error}; its log ends with:\n{self._child.tail(1000)}") from error
        return self

    def stop(self) -> None:
        """End it and give its port back."""
        self._child.stop()
        self._reservation.release()

    def kill(self) -> None:
        """End it at once, as a fault; :meth:`start` brings it back with its data."""
        self._child.kill()

    def pause(self) -> None:
        """Freeze it: connections open, and nobody answers. Ends with :meth:`resume`."""
        self._child.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._child.resume()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, path: str, **options: str) -> Any:
        """The ``data`` of an answer. Raises ApiError for a bad question and ``OSError`` when nobody answers."""
        return json.loads(http_text(f"{self.url}/api/v1/{path}?{urlencode(options)}"))["data"]

    def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """An instant query, now or at a time in POSIX seconds.

        Raises ApiError for a bad expression and ``OSError`` when nobody answers.
        """
        answer = self.ask("query", query=expression, **({} if at is None else {"time": f"{at:.3f}"}))
        return [Sample(entry["metric"], float(entry["value"][1])) for entry in answer["result"]]

    def value(self, expression: str) -> float:
        """The value of the first series, NaN where there is none."""
        samples = self.query(expression)
        return samples[0].value if samples else math.nan

    def _is_ready(self) -> bool:
        try:
            http_text(f"{self.url}/-/ready", timeout=2)
        except (ApiError, OSError):
            return False
        return True


def prometheus_configuration(
    targets: Sequence[str], jobs: Sequence[Mapping[str, Any]] = (), days: int = 0, rules: Sequence[Path] = ()
) -> str:
    """The configuration file for static targets and further jobs, scraped every second.

    Samples may be up to so many days older than the newest one.
    """
    engines = {"job_name": "engines", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [engines, *(dict(job) for job in jobs)] if targets else [dict(job) for job in jobs],
            **({"rule_files": [str(path) for path in rules]} if rules else {}),
            **({"storage": {"tsdb": {"out_of_order_time_window": f"{days}d"}}} if days else {}),
        }
    )
