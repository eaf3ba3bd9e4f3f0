"""The trainer as a library: create, collect, learn, save, and measure what was learnt.

python examples/train_ocean.py
"""

import pufferlib.vector
from pufferlib import clean_pufferl
from pufferlib.environments import ocean
from pufferlib.trainer.config import TrainConfig
from pufferlib.trainer.evaluate import evaluate_policy


def main(steps: int = 60_000, run_dir: str | None = None) -> float:
    """Train Squared; returns the mean score of at least 100 games, of which 1 is the best."""
    make_env = ocean.env_creator("squared")
    envs = pufferlib.vector.make(make_env, backend="serial", num_envs=64)
    policy = ocean.Policy(envs.driver_env, hidden_size=128)
    config = TrainConfig(total_timesteps=steps, learning_rate=2.5e-3, device="cpu")
    trainer = clean_pufferl.create(config, envs, policy, run_dir)
    while trainer.global_step < steps:
        statistics = clean_pufferl.evaluate(trainer)
        losses = clean_pufferl.train(trainer)
        if trainer.epoch % 10 == 1:
            score, entropy = statistics.get("score", float("nan")), losses["entropy"]
            print(f"{trainer.global_step:9,} steps, score {score:.2f}, entropy {entropy:.2f}")
    print(f"saved {clean_pufferl.save_checkpoint(trainer)}")
    clean_pufferl.close(trainer)

    with pufferlib.vector.make(make_env, num_envs=16) as fresh:
        result = evaluate_policy(fresh, policy, episodes=100, seed=1, score_key="score")
    print(f"score {result.mean:.2f} in {len(result.scores)} fresh games")
    return result.mean


if __name__ == "__main__":
    main()
