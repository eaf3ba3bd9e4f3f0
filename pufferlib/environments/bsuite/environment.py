"""bsuite (Osband et al. 2020) through shimmy: experiments about exploration, memory, credit, noise.

An experiment comes in variants, `deep_sea/0` to `deep_sea/20`, as bsuite's sweep numbers them. A
variant's settings decide its hidden choices, such as which arm of the bandit pays most; the seed of
`reset` decides all that happens by chance.

bsuite's measures (regret, the return without the noise that is added to it) are sums over the life
of an environment. Here the info of an episode's last step has each one's growth in that episode.
bsuite draws nothing. Here `render` shows the last observation as text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import check_task, require
from pufferlib.postprocess import EpisodeStats

_NO_SUM = "best_episode"


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Arguments of `make_env` beside the experiment's name, whose settings are the sweep's."""

    render_mode: Literal["ansi"] | None = "ansi"
    """'ansi': `render()` returns the last observation as text."""


class Measures(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports what bsuite measured in an episode, in place of shimmy's infos.

    Args:
        env: shimmy's environment.
        experiment: the one of bsuite in it.
        shows: whether `render()` returns the last observation as text.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], experiment: Any, shows: bool) -> None:
        super().__init__(env)
        self._experiment = experiment
        self._shows = shows

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._before = self._sums()
        self._seen, _ = self.env.reset(seed=seed, options=options)
        return self._seen, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        self._seen, reward, terminal, truncation, _ = self.env.step(action)
        growth = {}
        if terminal or truncation:
            growth = {key: total - self._before[key] for key, total in self._sums().items()}
        return self._seen, reward, terminal, truncation, growth

    def render(self) -> str | None:
        """The last observation, row by row; None without a render mode."""
        short = {"float_kind": "{:.3g}".format}
        text = np.array2string(self._seen, formatter=short, threshold=self._seen.size)
        return text if self._shows else None

    def _sums(self) -> dict[str, float]:
        measures = self._experiment.bsuite_info().items()
        return {key.removeprefix("total_"): float(x) for key, x in measures if key != _NO_SUM}


def make_env(
    name: str = "catch/0", render_mode: Literal["ansi"] | None = "ansi"
) -> GymnasiumPufferEnv:
    """Make an experiment, with episode statistics.

    Args:
        name: bsuite's id, `deep_sea/3`; without a number the first variant.
        render_mode: see `EnvConfig`.

    Raises:
        ConfigError: there is no such experiment; the message has the nearest name.
        EnvironmentSetupError: `bsuite` or `shimmy` is not installed.
    """
    bsuite, shimmy = require("bsuite")
    task = _id(name)
    # Not `load_from_id`, which prints a line in every worker.
    experiment = bsuite.load(task.partition("/")[0], bsuite.sweep.SETTINGS[task])
    game = shimmy.BSuiteCompatibilityV0(experiment)
    env = Measures(game, experiment, shows=render_mode == "ansi")
    return GymnasiumPufferEnv(env=EpisodeStats(env))


def env_creator(name: str = "catch/0") -> Callable[..., GymnasiumPufferEnv]:
    """The make function of an experiment; it takes the keyword arguments of `EnvConfig`.

    Raises:
        ConfigError: there is no such experiment; the message has the nearest name.
        EnvironmentSetupError: `bsuite` or `shimmy` is not installed.
    """
    return functools.partial(make_env, _id(name))


def _id(name: str) -> str:
    """The id of an experiment's variant, which may be given without its number."""
    bsuite, _ = require("bsuite")
    return check_task(name if "/" in name else f"{name}/0", bsuite.sweep.SETTINGS, "bsuite")
