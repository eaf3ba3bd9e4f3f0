"""Many environments as one: in this process, in workers, and as a pool that nobody waits for.

python examples/vectorize.py
"""

import time
from collections.abc import Callable
from typing import Any

import pufferlib.vector
from pufferlib.environments import classic_control

NUM_ENVS = 8
BACKENDS: dict[str, dict[str, Any]] = {
    "serial": {"backend": pufferlib.vector.Serial},
    "two workers": {"backend": pufferlib.vector.Multiprocessing, "num_workers": 2},
    # Batches of half the environments: the worker that has finished does not wait for the other.
    "a pool": {"backend": "multiprocessing", "num_workers": 2, "batch_size": NUM_ENVS // 2},
}


def play(envs: pufferlib.vector.VecEnv, steps: int) -> int:
    """So many batches of random actions; returns the number of environment steps."""
    actions = envs.action_space.sample()
    if envs.agents_per_batch == envs.num_agents:
        envs.reset(seed=0)
        for _ in range(steps):
            observations, rewards, terminals, truncations, infos = envs.step(actions)
    else:
        envs.async_reset(seed=0)
        for _ in range(steps):
            # `env_id` says whose rows these are, `mask` which agents are there.
            observations, rewards, terminals, truncations, infos, env_id, mask = envs.recv()
            envs.send(actions)
    return steps * len(observations)


def main(steps: int = 5_000, clock: Callable[[], float] = time.perf_counter) -> None:
    """Measure each backend."""
    make_env = classic_control.env_creator("CartPole-v1")
    for name, options in BACKENDS.items():
        with pufferlib.vector.make(make_env, num_envs=NUM_ENVS, **options) as envs:
            begun = clock()
            count = play(envs, steps)
            print(f"{name:12} {count:7,} steps, {count / (clock() - begun):9,.0f} a second")


if __name__ == "__main__":
    main()
