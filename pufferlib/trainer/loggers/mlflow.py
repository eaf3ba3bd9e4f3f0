"""MLflow (extra `mlflow`)."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from pufferlib.trainer.loggers.base import RunInfo, State, require_package
from pufferlib.trainer.options import flatten

EXPERIMENT = "pufferlib"
WAITING = 1_000
"""Points that wait at most while the server does not answer."""
PATIENCE = 60.0
"""Seconds that the end of a run waits for the server."""
_STATUS: dict[State, str] = {"finished": "FINISHED", "interrupted": "KILLED", "crashed": "FAILED"}
_DIRECTORY_TAG = "pufferlib.run"
_MOST_PARAMETERS = 100  # that one request may have


class MlflowLogger:
    """Logs to MLflow, as its own environment variables say.

    `MLFLOW_TRACKING_URI` and `MLFLOW_EXPERIMENT_NAME` say where to. A thread of its own talks to
    the server, as MLflow tries again for minutes where none answers. A resumed run goes on under
    its name.
    """

    def __init__(self) -> None:
        self._mlflow = require_package("mlflow", "mlflow")

    def open(self, run: RunInfo) -> None:
        """Begin the run, or go on with the one of the same directory's name."""
        self._client = self._mlflow.MlflowClient()
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT))
        name = run.directory.name
        found = self._client.search_runs([experiment], f"tags.`{_DIRECTORY_TAG}` = '{name}'")
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
        else:
            tags = {_DIRECTORY_TAG: name}
            self._id = self._client.create_run(experiment, run_name=name, tags=tags).info.run_id
            self._log_parameters(run.config)
        self._error: Exception | None = None
        self._points: queue.Queue[list[Any] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._send, name="mlflow", daemon=True)
        self._thread.start()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Leave the point to the thread; raises what an earlier one has met."""
        now = int(1000 * time.time())
        entity = self._mlflow.entities.Metric
        self._points.put_nowait(
            [entity(name, value, now, step) for name, value in metrics.items() if _is_finite(value)]
        )
        self._raise()

    def close(self, state: State) -> None:
        """Wait for what is left, for a minute at most, and set the status of the run."""
        self._points.put(None, timeout=PATIENCE)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError(f"the server did not take everything within {PATIENCE:.0f} s")
        self._client.set_terminated(self._id, _STATUS[state])
        self._raise()

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def _log_parameters(self, config: Mapping[str, Any]) -> None:
        entity = self._mlflow.entities.Param
        parameters = [entity(name, str(value)) for name, value in flatten(config)]
        for start in range(0, len(parameters), _MOST_PARAMETERS):
            self._client.log_batch(self._id, params=parameters[start : start + _MOST_PARAMETERS])

    def _send(self) -> None:
        while (point := self._points.get()) is not None:
            try:
                self._client.log_batch(self._id, metrics=point)
            except Exception as error:  # of any kind; `log` raises it where it is caught
                self._error = error

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def _is_finite(value: float) -> bool:
    return math.isfinite(value)  # MLflow's stores differ in what they make of others
