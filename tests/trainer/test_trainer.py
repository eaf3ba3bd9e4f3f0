"""The clock of a run."""

import time

from pufferlib.trainer.trainer import Clock


def test_every_moment_belongs_to_one_phase(monkeypatch):
    moments = iter([10.0, 10.5, 12.0, 12.25, 15.25])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    clock = Clock()
    for phase in ("env", "forward", "env", "learn"):
        clock.lap(phase)
    assert clock.seconds == {"env": 0.75, "copy": 0, "forward": 1.5, "learn": 3.0, "other": 0}
