"""The worlds of native games as NumPy structures: to look at, to change, to set up situations."""

import numpy as np

BREAKOUT = np.dtype(
    [
        ("random", "u8"),
        *[(name, "f4") for name in ("paddle", "x", "y", "vx", "vy", "speed")],
        ("bricks", "u4", 6),
        ("tick", "u4"),
        ("points", "u2"),
        ("balls", "u1"),
        ("left", "u1"),
    ]
)
PONG = np.dtype(
    [
        ("random", "u8"),
        ("paddles", "f4", 2),
        *[(name, "f4") for name in ("x", "y", "vx", "vy")],
        ("points", "i4", 2),
        ("tick", "u4"),
        ("unused", "u4"),
    ]
)
LAYOUTS = {"breakout": BREAKOUT, "pong": PONG}


def worlds_of(env):
    """A copy of all worlds, as the C source lays them out."""
    return np.frombuffer(env.get_state()["worlds"], LAYOUTS[env.game]).copy()


def put_worlds(env, worlds):
    """Let `env` go on from these worlds."""
    env.set_state(env.get_state() | {"worlds": worlds.tobytes()})


def in_situation(env, **values):
    """`env` after a reset, with these values in every world."""
    env.reset(seed=0)
    worlds = worlds_of(env)
    for name, value in values.items():
        worlds[name] = value
    put_worlds(env, worlds)
    return env


def records_of(infos):
    """The episodes of some infos, as one structured array."""
    arrays = {name: np.concatenate([info[name] for info in infos]) for name in infos[0]}
    return np.rec.fromarrays(list(arrays.values()), names=list(arrays))
