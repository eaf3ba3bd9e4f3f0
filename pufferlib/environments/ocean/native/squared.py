"""Squared in C."""

from __future__ import annotations

from pufferlib.environments.ocean.native.worlds import NativeEnv
from pufferlib.environments.ocean.sanity import Squared
from pufferlib.exceptions import ConfigError

MAX_DISTANCE = 127


class NativeSquared(NativeEnv):
    """`num_agents` squares at once, each with the rules and the random numbers of `Squared`.

    Agent i of an environment that was reset with a seed lives in the same world as a `Squared`
    that was reset with output i of `SplitMix64(seed)`: same targets, rewards and scores.

    Args:
        num_agents: squares, of one agent each.
        distance_to_target: 1 to 127.
        num_targets: 1 to 8 times the distance.
        threads: how many share each step.

    Raises:
        ConfigError: an argument is out of its range.
        EnvironmentSetupError: the native core is missing.
    """

    game = "squared"
    metadata = NativeEnv.metadata | {"render_fps": 5}

    def __init__(
        self,
        num_agents: int = 4096,
        distance_to_target: int = 3,
        num_targets: int = 1,
        threads: int = 1,
        render_mode: str | None = "ansi",
    ) -> None:
        if distance_to_target > MAX_DISTANCE:
            raise ConfigError(
                f"distance_to_target: expected at most {MAX_DISTANCE} in native Squared, got "
                f"{distance_to_target}"
            )
        twin = Squared(distance_to_target, num_targets)
        self.single_observation_space = twin.observation_space
        self.single_action_space = twin.action_space
        super().__init__((distance_to_target, num_targets), num_agents, threads, render_mode)
