"""Random play in libraries whose own interface is neither Gymnasium's nor PettingZoo's.

Each function makes what the binding of the same name makes, and returns one step of it: an action
and what the library then tells, with a reset where one is needed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np

Step = Callable[[], None]


def microrts() -> Step:
    """One game against a bot, in the engine's own Python, which also makes the mask."""
    from gym_microrts import microrts_ai
    from gym_microrts.envs.vec_env import MicroRTSGridModeVecEnv

    games = MicroRTSGridModeVecEnv(
        num_selfplay_envs=0,
        num_bot_envs=1,
        max_steps=2_000,
        ai2s=[microrts_ai.randomBiasedAI],
        map_paths=["maps/8x8/basesWorkers8x8.xml"],
        reward_weight=np.array([10.0, 1.0, 1.0, 0.2, 1.0, 4.0]),
    )
    games.action_space.seed(0)
    actions = [games.action_space.sample()[None] for _ in range(100)]
    games.reset()
    count = 0

    def step() -> None:
        nonlocal count
        games.get_action_mask()
        games.step(actions[count % len(actions)])
        count += 1

    return step


def open_spiel() -> Step:
    """A legal move, and the tensor of the player whose turn it is."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    states = [game.new_initial_state()]
    draw = random.Random(0)

    def step() -> None:
        state = states[0]
        state.apply_action(draw.choice(state.legal_actions()))
        if state.is_terminal():
            states[0] = game.new_initial_state()
        else:
            state.observation_tensor()

    return step


def pokemon_red() -> Step:
    """A button for 8 of 24 frames, of which the last is drawn."""
    from pyboy import PyBoy

    from pufferlib.environments.pokemon_red.environment import BUTTONS

    rom = os.environ["POKEMON_RED_ROM"]
    console = PyBoy(rom, window="null", sound_emulated=False, log_level="ERROR")
    draw = random.Random(0)

    def step() -> None:
        console.button(draw.choice(BUTTONS), 8)
        console.tick(24, True, False)

    return step


def procgen() -> Step:
    """One game; it resets by itself."""
    from procgen import ProcgenGym3Env

    games = ProcgenGym3Env(
        num=1, env_name="coinrun", distribution_mode="easy", num_threads=0, rand_seed=0
    )
    actions = np.random.default_rng(0).integers(15, size=(1_000, 1), dtype=np.int32)
    count = 0

    def step() -> None:
        nonlocal count
        games.act(actions[count % len(actions)])
        games.observe()
        count += 1

    return step


LIBRARIES: dict[str, Callable[[], Step]] = {
    "microrts": microrts,
    "open_spiel": open_spiel,
    "pokemon_red": pokemon_red,
    "procgen": procgen,
}
"""By the names of the families."""
