"""TensorBoard, the logger by default."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pufferlib.trainer.loggers.base import RunInfo, State

_VERSION = "brain.Event:2"  # the first record of every event file


class TensorBoardLogger:
    """Writes event files into the directory of the run, each point when it comes.

    With TensorBoard's own records, but without `SummaryWriter`: that one writes from a thread,
    which ends at the first error (a full disk) with a traceback on the terminal, for good.
    """

    def __init__(self) -> None:
        self._writer: Any = None
        self._files = 0

    def open(self, run: RunInfo) -> None:
        """Begin an event file; TensorBoard hides what older ones have beyond the first step."""
        self._directory = run.directory
        self._begin_file(run.first_step)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write one scalar per entry; after a failure into a new file, as readers stop there."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._writer is None:
            self._begin_file()
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self, state: State) -> None:
        """Close the event file."""
        self._end_file()

    def _begin_file(self, first_step: int = 0) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._files += 1
        now = time.time()
        name = f"events.out.tfevents.{now:.0f}.{platform.node()}.{os.getpid()}.{self._files}"
        file = Path(self._directory, name).open("ab")  # noqa: SIM115 - closed by _end_file
        self._writer = RecordWriter(file)
        self._write(Event(wall_time=now, step=first_step, file_version=_VERSION))
        if first_step:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=now, step=first_step, session_log=start))

    def _write(self, event: Any) -> None:
        try:
            self._writer.write(event.SerializeToString())
            self._writer.flush()
        except BaseException:
            self._end_file()
            raise

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
