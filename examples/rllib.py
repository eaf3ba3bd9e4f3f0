"""RLlib trains a policy with memory over environments that pufferlib steps.

pip install -c constraints/rllib.txt -e '.[rllib]'   # in a virtual environment of its own
python examples/rllib.py
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from pufferlib.environments import ocean
from pufferlib.frameworks.rllib import module_spec, register
from pufferlib.models import Default, LSTMWrapper

NUM_ENVS, STEPS = 64, 14


def make_policy(env):
    """Any policy of `forward(observations, state, starts)`; without memory, `Default(env)`."""
    return LSTMWrapper(env, Default(env))


def main(batches: int = 90) -> float:
    """Train; the last mean return, of which the best is 1."""
    create = ocean.env_creator("memory")
    register("memory", create, backend="serial")
    size = NUM_ENVS * STEPS
    config = (
        PPOConfig()
        .environment("memory")
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=NUM_ENVS,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=STEPS,
        )
        .rl_module(rl_module_spec=module_spec(make_policy, create, max_seq_len=STEPS))
        .training(
            lr=[[0, 2e-3], [batches * size, 0.0]],
            train_batch_size_per_learner=size,
            minibatch_size=256,
            num_epochs=4,
            entropy_coeff=0.05,
            vf_loss_coeff=0.5,
            grad_clip=0.5,
            lambda_=0.95,
            use_kl_loss=False,
        )
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(batches):
        score = algorithm.train()["env_runners"]["episode_return_mean"]
        print(f"mean return {score:.2f}")
    algorithm.stop()
    return score


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    main()
