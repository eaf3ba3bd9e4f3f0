"""Curves come back as they were logged."""

import pytest

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.loggers import NoLogger, TensorBoardLogger, make_logger


def test_tensorboard_file_is_readable_and_skips_what_is_no_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = make_logger("tensorboard", tmp_path)
    assert isinstance(logger, TensorBoardLogger)
    logger.log({"train/entropy": 1.5, "episodes/count": 3, "text": "x", "none": None}, 10)
    logger.log({"train/entropy": 0.5}, 20)
    logger.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/entropy", "episodes/count"}
    assert [(e.step, e.value) for e in events.Scalars("train/entropy")] == [(10, 1.5), (20, 0.5)]


def test_no_logger_writes_nothing(tmp_path):
    logger = make_logger("none", tmp_path)
    assert isinstance(logger, NoLogger)
    logger.log({"a": 1.0}, 1)
    logger.close()
    logger.close()
    assert list(tmp_path.iterdir()) == []


def test_unknown_logger_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean tensorboard"):
        make_logger("tensorbord", "runs")
