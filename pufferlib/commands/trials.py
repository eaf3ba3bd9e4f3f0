"""The trials of `puffer verify`: a sanity environment each, trained and measured as a user would.

Beside the score, three numbers catch what a score forgives. A critic that expects something else
than the episodes then bring has learnt from returns that are not theirs. First observations that
are equal must be valued alike, or the policy remembers the episode before. And what was learnt from
must be the steps that the environments count themselves, neither padding nor the rows of resets.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferlib import clean_pufferl
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.config import Config
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.experience import Segments
from pufferlib.trainer.options import did_you_mean
from pufferlib.trainer.setup import load_config, make_policy, make_vecenv, policy_of_checkpoint
from pufferlib.trainer.trainer import Trainer

WORKERS = 4
"""Processes of each trial; more than two, so that batches are gathered from any two of them."""

MOST_SPREAD = 0.001
"""Bound of `Outcome.spread`, which is a matter of rounding where nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a trial has to reach, and the settings that go over the environment's own.

    Attributes:
        score: mean of the evaluated episodes, at least.
        critic: how far the critic's mean may be from the mean return; None where no episode fits
            into a segment.
        train, env: options of these groups.
    """

    score: float
    critic: float | None = None
    train: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One environment, and what it shows.

    Attributes:
        env: its name.
        full, quick: what is demanded.
        meaning: what a score below the demand points at.
        episodes: played to measure the score.
    """

    env: str
    full: Demand
    quick: Demand
    meaning: str
    episodes: int = 512


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial has shown; None for what an error kept from being measured.

    Attributes:
        score: mean over the evaluated episodes.
        critic: distance of the critic's mean from the mean return.
        spread: the most that values of equal first observations differ.
        learnt: steps that were learnt from.
        played: steps of the episodes that ended meanwhile, as the environments count them.
        unfinished: how far the two may be apart, because of what had begun.
        error: what was raised.
    """

    score: float | None = None
    critic: float | None = None
    spread: float | None = None
    learnt: int = 0
    played: int = 0
    unfinished: int = 0
    error: str | None = None
    seconds: float = 0.0

    def failures(self, demand: Demand, meaning: str) -> list[str]:
        """What is wrong and what that would mean; nothing if all is well."""
        if self.score is None:
            return [f"{self.error}: the run broke off; the installation, or what {meaning}"]
        found = []
        if not self.score >= demand.score:
            found.append(f"score {self.score:.3f} < {demand.score:g}: {meaning}")
        if demand.critic is not None and not (
            self.critic is not None and self.critic <= demand.critic
        ):
            off = "episodes never begin" if self.critic is None else f"off by {self.critic:.3f}"
            found.append(
                f"critic {off}, at most {demand.critic:g}: advantages or returns across the ends "
                "of episodes, rewards beside their steps, or targets that were changed"
            )
        if self.spread is not None and not self.spread <= MOST_SPREAD:
            found.append(
                f"equal first observations are valued {self.spread:.3f} apart, at most "
                f"{MOST_SPREAD:g}: the recurrent state is not reset where an episode begins"
            )
        if abs(self.learnt - self.played) > self.unfinished:
            found.append(
                f"learnt from {self.learnt:,} steps, played {self.played:,}: rows that are no "
                "steps (of resets, of absent agents) are learnt from, or steps are lost"
            )
        return found


def _fast(total_timesteps: int, **changes: Any) -> Mapping[str, Any]:
    """Settings to learn something small in seconds."""
    return {
        "total_timesteps": total_timesteps,
        "learning_rate": 5e-3,
        "clip_coef": 0.2,
        **changes,
    }


# The first success comes after several batches. Until then nothing but the entropy bonus moves the
# policy, which of the wrong sign ends exploration; normalized advantages would move it, as noise.
_RARE = Demand(
    score=0.9,
    critic=0.1,
    train=_fast(40_000, norm_adv=False, ent_coef=0.1, ent_coef_final=0.0),
    env={"length": 8},
)

# Bounds: docs/pages/verify.md has the scores of the seeds that they come from. Quick trials learn
# in larger steps. Bandit's critic learns from noise and is compared with it.
TRIALS: tuple[Trial, ...] = (
    Trial(
        env="squared",
        full=Demand(score=0.9, critic=0.1),
        quick=Demand(score=0.9, critic=0.1, train=_fast(30_000, learning_rate=1e-2)),
        meaning="observations, actions and rewards do not belong together",
    ),
    Trial(
        env="password",
        full=_RARE,
        quick=_RARE,
        meaning="exploration ends too early, or a late reward does not reach the steps before it",
    ),
    Trial(
        env="stochastic",
        full=Demand(score=0.9),
        quick=Demand(score=0.9, train=_fast(30_000)),
        meaning="actions are not sampled as they are learnt from, or the entropy bonus is wrong",
        episodes=64,
    ),
    Trial(
        env="memory",
        full=Demand(score=0.9, critic=0.15),
        quick=Demand(score=0.9, critic=0.15, train=_fast(20_000), env={"length": 1}),
        meaning="recurrent states are lost, kept too long, or another agent's",
    ),
    Trial(
        env="multiagent",
        full=Demand(score=0.9, critic=0.1),
        quick=Demand(score=0.9, critic=0.1, train=_fast(16_000, learning_rate=1e-2)),
        meaning="agents of one environment are crossed, or actions arrive as others",
    ),
    Trial(
        env="spaces",
        full=Demand(score=0.95, critic=0.1),
        quick=Demand(score=0.95, critic=0.1, train=_fast(20_000, learning_rate=1e-2)),
        meaning="what has parts is flattened and restored in different ways, or comes late",
    ),
    Trial(
        env="bandit",
        full=Demand(score=0.9, critic=0.5),
        quick=Demand(score=0.9, critic=0.5, train=_fast(12_000)),
        meaning="rewards do not reach the actions that earned them",
    ),
)


def find(names: Sequence[str]) -> list[Trial]:
    """The trials of these environments, in the order of `TRIALS`.

    Raises:
        ConfigError: there is no such trial; the message has the nearest one.
    """
    known = [trial.env for trial in TRIALS]
    for name in names:
        if name not in known:
            raise ConfigError(f"--envs: unknown environment '{name}'{did_you_mean(name, known)}")
    return [trial for trial in TRIALS if trial.env in names]


def run(trial: Trial, demand: Demand, seed: int) -> Outcome:
    """Train and measure; an error is an outcome too, as it is what this is there to show."""
    started = time.monotonic()
    found: dict[str, Any]
    try:
        found = _train_and_measure(configure(trial.env, demand, seed), trial.episodes)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return Outcome(**found, seconds=time.monotonic() - started)


def configure(env: str, demand: Demand, seed: int) -> Config:
    """The environment's own configuration with the settings of `demand`, over a pool of workers."""
    num_envs = load_config(env).vec.num_envs
    pool = {
        "backend": "multiprocessing",
        "num_workers": WORKERS,
        "batch_size": num_envs // 2,
        "zero_copy": False,
    }
    train = {"loggers": ("none",), "checkpoint_interval": 0, **demand.train, "seed": seed}
    return load_config(env, overrides={"train": train, "vec": pool, "env": demand.env})


def _train_and_measure(config: Config, episodes: int) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        # More workers than cores: they sleep while they wait.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "num_workers=.* is more than the .* cores")
        run_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="puffer-verify-"))
        vecenv = stack.enter_context(make_vecenv(config))
        policy = make_policy(config, vecenv.driver_env)
        trainer = clean_pufferl.create(config.train, vecenv, policy, run_dir, config.to_dict())
        found = _train(trainer)
        path = clean_pufferl.save_checkpoint(trainer)
        saved = policy_of_checkpoint(checkpoint.read(path), str(path), config, vecenv)
        saved.to(trainer.device)
        seed = config.train.seed + 1
        result = evaluate_policy(vecenv, saved, episodes, seed=seed, score_key=config.score_key)
    return {"score": result.mean, **found}


def _train(trainer: Trainer) -> dict[str, Any]:
    """Train to the end, and say what was learnt from and what the critic is worth."""
    played = length = 0.0
    while True:
        stats = clean_pufferl.evaluate(trainer)
        if "episode_length" in stats:
            length = stats["episode_length"]
            played += length * stats.counts["episode_length"]
        if trainer.progress() >= 1:
            break
        clean_pufferl.train(trainer)
    learnt = trainer.global_step
    clean_pufferl.reset(trainer)  # else there are segments that began under an older policy
    clean_pufferl.evaluate(trainer)
    config, agents = trainer.config, trainer.vecenv.num_agents
    segments = trainer.experience.collect(config.gamma, config.gae_lambda)
    return {
        "critic": critic_error(segments, config.gamma),
        "spread": spread_of_starts(segments),
        "learnt": learnt,
        "played": round(played),
        "unfinished": agents * (config.bptt_horizon + round(length)),
    }


def critic_error(segments: Segments, gamma: float) -> float | None:
    """How far the critic is from the returns of the episodes that lie whole in a segment.

    Both are means over the episodes' first rows, of the values and of the discounted sums of the
    rewards. None if there is no such episode.
    """
    returns = returns_to_end(segments.rewards, segments.dones, gamma)
    whole = segments.starts & segments.valid & np.isfinite(returns)
    if not whole.any():
        return None
    return abs(float(segments.values[whole].mean()) - float(returns[whole].mean()))


def spread_of_starts(segments: Segments) -> float | None:
    """The most that the values of equal first observations differ; None without equal ones."""
    first = segments.starts & segments.valid
    rows, values = segments.observations[first], segments.values[first]
    if not len(rows):
        return None
    _, group, counts = np.unique(
        rows.reshape(len(rows), -1), axis=0, return_inverse=True, return_counts=True
    )
    group = group.ravel()
    spreads = [float(np.ptp(values[group == i])) for i in np.flatnonzero(counts > 1)]
    return max(spreads, default=None)


def returns_to_end(
    rewards: NDArray[np.float32], dones: NDArray[np.bool_], gamma: float
) -> NDArray[np.float64]:
    """The discounted rewards from each transition to its episode's end; NaN if that is not there.

    Args:
        rewards: `(S, H)`, that each transition led to.
        dones: `(S, H)`, whether it ended the episode.
        gamma: discount.
    """
    returns = np.empty(rewards.shape)
    following = np.full(len(rewards), np.nan)
    for t in reversed(range(rewards.shape[1])):
        following = rewards[:, t] + np.where(dones[:, t], 0.0, gamma * following)
        returns[:, t] = following
    return returns
