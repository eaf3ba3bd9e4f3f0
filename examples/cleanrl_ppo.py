"""PPO in one file, as CleanRL has it: `python examples/cleanrl_ppo.py --env nethack`."""

import torch
import tyro

from pufferlib import environments, vector
from pufferlib.frameworks.cleanrl import Policy
from pufferlib.postprocess import episode_records

GAMMA, LAMBDA, CLIP, ENTROPY, STEPS, EPOCHS, MINIBATCHES = 0.99, 0.95, 0.1, 0.01, 128, 4, 4


@torch.no_grad()
def collect(envs: vector.VecEnv, agent: Policy, x: torch.Tensor) -> tuple[list, list, torch.Tensor]:
    """What PPO learns from, `(STEPS * agents, …)` each; returns of episodes; the next rows."""
    rollout, returns = [], []
    for _ in range(STEPS):
        action, logprob, _, value = agent.get_action_and_value(x)
        following, reward, terminal, truncation, infos = envs.step(action.numpy())
        ends = torch.tensor(terminal | truncation)
        if truncation.any():  # the episode would have gone on
            last = torch.tensor(envs.final_observations[truncation])
            reward[truncation] += GAMMA * agent.get_value(last)[:, 0].numpy()
        rollout.append((x, action, logprob, value[:, 0], torch.tensor(reward), ends))
        returns += [record["episode_return"] for record in episode_records(infos)]
        x = torch.tensor(following)  # a copy: the rows are overwritten
    xs, actions, logprobs, values, rewards, ends = map(torch.stack, zip(*rollout, strict=True))
    gains, gain, after = torch.zeros_like(values), 0, agent.get_value(x)[:, 0]
    for t in reversed(range(STEPS)):
        gain = rewards[t] - values[t] + GAMMA * ~ends[t] * (after + LAMBDA * gain)
        gains[t], after = gain, values[t]
    columns = (xs, actions, logprobs, gains, gains + values)
    return [column.flatten(0, 1) for column in columns], returns, x


def main(env: str = "atari", updates: int = 1_000, num_envs: int = 8, lr: float = 2.5e-4) -> None:
    """Train on any environment that `puffer envs` lists; infos are those of this library."""
    make_env = environments.load(env).env_creator(environments.resolve(env).task)
    envs = vector.make(vector.SameStep(make_env), num_envs=num_envs, backend="multiprocessing")
    agent, x = Policy(environments.load(env).Policy(envs.driver_env)), torch.tensor(envs.reset()[0])
    optimizer = torch.optim.Adam(agent.parameters(), lr, eps=1e-5)
    for update in range(updates):
        batch, returns, x = collect(envs, agent, x)
        print(f"update {update}, mean return {torch.tensor(returns).mean():.1f}")
        order = torch.cat([torch.randperm(len(batch[0])) for _ in range(EPOCHS)])
        for rows in order.chunk(EPOCHS * MINIBATCHES):
            xs, actions, old, gains, targets = (column[rows] for column in batch)
            _, logprobs, entropy, values = agent.get_action_and_value(xs, actions)
            gains, ratio = (gains - gains.mean()) / (gains.std() + 1e-8), (logprobs - old).exp()
            clipped = torch.min(gains * ratio, gains * ratio.clamp(1 - CLIP, 1 + CLIP))
            loss = ((values[:, 0] - targets).square() / 4 - clipped - ENTROPY * entropy).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    envs.close()


if __name__ == "__main__":
    tyro.cli(main)
