"""What an emulated environment gets and shows, each time alone and in a vecenv."""

import numpy as np
import pytest
from toys import Scripted, acting, emulate, vectorize

from pufferlib.exceptions import SpaceError, WorkerError


def received(space, *rows):
    """What an environment with this action space is given for `rows`, alone and in a vecenv."""
    env = emulate(acting(space))
    env.reset()
    for row in rows:
        env.step(row)
    with vectorize(lambda: acting(space), n=2) as vecenv:
        vecenv.reset()
        for row in rows:
            vecenv.step(np.stack([row, row]))
        first, second = vecenv.get_attr("received")
    assert len(env.env.received) == len(first) == len(second) == len(rows)
    for alone, *others in zip(env.env.received, first, second, strict=True):
        for other in others:
            assert repr(other) == repr(alone)
    return first


def shown(space, *observations):
    """The rows of an environment that shows `observations`, alone and in a vecenv."""
    env = emulate(Scripted(space, observations))
    alone = [env.reset()[0]] + [env.step(0)[0] for _ in observations[1:]]
    with vectorize(lambda: Scripted(space, observations), n=2, copy=True) as vecenv:
        rows = [vecenv.reset()[0]] + [vecenv.step([0, 0])[0] for _ in observations[1:]]
    np.testing.assert_array_equal(np.stack(rows), np.stack([np.stack([a, a]) for a in alone]))
    return env, alone


def refused(space, observations, message, steps=0, **options):
    """`observations` raise SpaceError at the reset or the last step, alone and in a vecenv."""
    env = emulate(Scripted(space, observations), **options)

    def play():
        env.reset()
        for _ in range(steps):
            env.step(0)

    with pytest.raises(SpaceError, match=message):
        play()
    with vectorize(lambda: Scripted(space, observations)) as vecenv:
        if not options:
            with pytest.raises(WorkerError, match=message):
                [vecenv.reset()] + [vecenv.step([0]) for _ in range(steps)]
