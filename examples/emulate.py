"""Environments with structure and several agents become flat rows, and nothing is lost.

pip install 'pufferlib[mpe]'
python examples/emulate.py
"""

import gymnasium
import torch
from mpe2 import simple_spread_v3

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.postprocess import EpisodeStats, MultiagentEpisodeStats
from pufferlib.pytorch import nativize_dtype, nativize_tensor


def make_blackjack() -> GymnasiumPufferEnv:
    """Observations are a Tuple: the player's sum, the dealer's card, whether an ace counts 11."""
    return GymnasiumPufferEnv(EpisodeStats(gymnasium.make("Blackjack-v1")))


def make_spread() -> PettingZooPufferEnv:
    """Three agents; any that were absent would be padded with zeros."""
    return PettingZooPufferEnv(MultiagentEpisodeStats(simple_spread_v3.parallel_env()))


def main() -> None:
    """Play a hand of the one, and a step of the other."""
    env = make_blackjack()
    row, _ = env.reset(seed=4)
    print(f"a Tuple is one row: {env.single_observation_space}, {row}")

    # What a policy does with a batch of rows:
    layout = nativize_dtype(env.emulated)
    parts = nativize_tensor(torch.from_numpy(row[None]), layout)
    print(f"and unpacked again: { {name: part.tolist() for name, part in parts.items()} }")

    terminal = False
    while not terminal:
        row, reward, terminal, truncation, info = env.step(0)  # stick
    print(f"the last info sums up the episode: {info}")
    env.close()

    env = make_spread()
    rows, _ = env.reset(seed=4)
    print(f"rows of {', '.join(rows)}: {rows['agent_0'].shape}")
    actions = {agent: env.single_action_space.sample() for agent in env.agents}
    rows, rewards, terminals, truncations, infos = env.step(actions)
    print(f"rewards: { {agent: round(float(reward), 2) for agent, reward in rewards.items()} }")
    env.close()


if __name__ == "__main__":
    main()
