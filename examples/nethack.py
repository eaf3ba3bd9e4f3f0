"""NetHack with a policy that remembers, in worker processes, and a game to look at.

pip install 'pufferlib[nethack]'
python examples/nethack.py
"""

import torch

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.environments import nethack
from pufferlib.pytorch import sample_logits
from pufferlib.trainer.config import TrainConfig


def train(steps: int, run_dir: str | None) -> torch.nn.Module:
    """A recurrent policy that has learnt from so many steps."""
    envs = pufferlib.vector.make(
        nethack.env_creator("NetHackScore-v0"),
        env_kwargs={"reward_scale": 0.1, "reward_clip": 2.0},
        backend=pufferlib.vector.Multiprocessing,
        num_envs=32,
        num_workers=2,
    )
    policy = nethack.Recurrent(envs.driver_env, nethack.Policy(envs.driver_env))
    config = TrainConfig(total_timesteps=steps, learning_rate=1e-3, bptt_horizon=32, device="cpu")
    trainer = clean_pufferl.create(config, envs, policy, run_dir)
    while trainer.global_step < steps:
        statistics = clean_pufferl.evaluate(trainer)
        clean_pufferl.train(trainer)
        print(f"{trainer.global_step:9,} steps, score {statistics.get('score', float('nan')):.1f}")
    clean_pufferl.close(trainer)
    return policy


@torch.no_grad()
def show_a_game(policy: torch.nn.Module, max_steps: int) -> dict[str, float]:
    """Play, print the last screen and return the game's summary."""
    env = nethack.make_env(max_episode_steps=max_steps)
    row, _ = env.reset(seed=0)
    state, info = None, {}
    while not info:
        logits, _, state = policy(torch.from_numpy(row[None]), state)
        screen = env.render()  # before the step: after a death there is nothing to see
        row, _, _, _, info = env.step(sample_logits(logits)[0].item())
    print(screen, info, sep="\n")
    env.close()
    return info


if __name__ == "__main__":
    show_a_game(train(steps=200_000, run_dir=None), max_steps=2_000)
