"""RLlib plays and trains our environments and policies, with memory or with several agents too.

In the virtual environment of `constraints/rllib.txt`, where plain `pytest` collects it too.
"""

import functools
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from toys import COMINGS_AND_GOINGS, Lives, emulate

from pufferlib.environments import classic_control, mpe, ocean
from pufferlib.models import Default, LSTMWrapper

pytest.importorskip("ray.rllib", exc_type=ImportError)

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns

from pufferlib.frameworks.rllib import Module, MultiAgent, module_spec, register

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def session():
    # Two, that both runners of the page's example start.
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False
    )
    yield
    ray.shutdown()


def make_recurrent(env):
    return LSTMWrapper(env, Default(env))


def test_agents_come_and_go():
    """b dies at step 2, c is born at step 3, all end at step 4."""
    env = MultiAgent(emulate(Lives(COMINGS_AND_GOINGS)))
    assert list(env.reset(seed=0)[0]) == ["a", "b"]
    seen = []
    acting = ["a", "b"]
    for _ in range(4):
        observations, rewards, terminals, truncations, _ = env.step(dict.fromkeys(acting, 1))
        seen.append(("".join(observations), "".join(k for k, v in terminals.items() if v)))
        acting = [agent for agent in observations if not terminals[agent]]
        assert observations.keys() == rewards.keys()
        assert not any(truncations.values())
    assert seen == [("ab", ""), ("ab", "b"), ("ac", ""), ("ac", "ac__all__")]


def test_a_recurrent_module_over_a_sequence_is_the_one_that_acted():
    creator = ocean.env_creator("memory")
    env = creator()
    spec = module_spec(make_recurrent, creator)
    spec.observation_space, spec.action_space = env.observation_space, env.action_space
    module = spec.build()
    assert module.is_stateful()
    state = {k: torch.from_numpy(v)[None] for k, v in module.get_initial_state().items()}
    inputs = torch.rand(1, 5, *env.observation_space.shape)
    batch = {Columns.OBS: inputs, Columns.STATE_IN: state}
    whole = module.forward_train(batch)
    for step in range(5):
        outputs = module.forward_exploration(
            {Columns.OBS: inputs[:, step : step + 1], Columns.STATE_IN: state}
        )
        state = outputs[Columns.STATE_OUT]
        torch.testing.assert_close(
            outputs[Columns.ACTION_DIST_INPUTS][:, 0],
            whole[Columns.ACTION_DIST_INPUTS][:, step].detach(),
        )
    values = module.compute_values(batch, embeddings=whole[Columns.EMBEDDINGS])
    torch.testing.assert_close(values, module.compute_values(batch))


def train(
    creator, batches, size, rate, policy=Default, vectors=0, horizon=None, own=None, **training
):
    """Train with PPO; the mean return after each batch.

    vectors: environments as one of ours; 0: PettingZoo's.
    own: the id of RLlib's own environments to train over instead.
    """
    register("puffer", creator)
    config = (
        PPOConfig()
        .environment(own or "puffer")
        .env_runners(num_env_runners=0, rollout_fragment_length=horizon or "auto")
        .learners(num_learners=0)
        .rl_module(rl_module_spec=module_spec(policy, creator, max_seq_len=horizon or 20))
        .training(
            lr=[[0, rate], [batches * size, 0.0]],
            train_batch_size_per_learner=size,
            **{"minibatch_size": 256, "num_epochs": 4, "vf_loss_coeff": 0.5} | training,
            vf_clip_param=1e6,
            grad_clip=0.5,
            lambda_=0.95,
            use_kl_loss=False,
        )
        .debugging(seed=0)
    )
    if vectors:
        config.env_runners(
            gym_env_vectorize_mode="sync" if own else "vector_entry_point",
            num_envs_per_env_runner=vectors,
        )
    else:
        config.env_runners(num_envs_per_env_runner=16).multi_agent(
            policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared"
        )
    algorithm = config.build_algo()
    returns = [
        algorithm.train()["env_runners"].get("episode_return_mean", np.nan) for _ in range(batches)
    ]
    algorithm.stop()
    return np.array(returns)


def random_return(creator, episodes):
    """The mean return of all agents together under uniform actions."""
    env = MultiAgent(creator())
    rng, rewards = np.random.default_rng(0), 0.0
    for seed in range(episodes):
        env.reset(seed=seed)
        ended = False
        while not ended:
            actions = {agent: rng.integers(env.action_spaces[agent].n) for agent in env.agents}
            _, reward, terminals, truncations, _ = env.step(actions)
            rewards += sum(reward.values())
            ended = terminals["__all__"] or truncations["__all__"]
    return rewards / episodes


@pytest.mark.usefixtures("session")
class TestTraining:
    def test_the_example_of_the_page(self):
        page = ROOT / "docs" / "pages" / "learning_libraries.md"
        sources = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
        (source,) = (text for text in sources if "frameworks.rllib" in text)
        names = {}
        exec(source, names)
        algorithm = names["config"].build_algo()
        module = algorithm.get_module()
        algorithm.stop()
        assert isinstance(module, Module)
        assert not module.is_stateful()

    def test_the_example(self):
        example = runpy.run_path(str(ROOT / "examples" / "rllib.py"))
        assert 0.3 < example["main"](batches=2) < 0.7

    @pytest.mark.slow
    def test_structured_observations(self):
        creator = ocean.env_creator("spaces")
        returns = train(creator, 12, 1024, 5e-3, vectors=128, horizon=8, entropy_coeff=0.01)
        assert returns[-1] >= 0.9

    @pytest.mark.slow
    def test_several_agents(self):
        creator = functools.partial(ocean.env_creator("multiagent"), roles="drawn")
        assert train(creator, 10, 512, 5e-3)[-1] >= 0.9 * 2  # of two agents in all

    @pytest.mark.bench
    def test_memory(self):
        creator = ocean.env_creator("memory")
        returns = train(
            creator, 90, 896, 2e-3, make_recurrent, vectors=64, horizon=14, entropy_coeff=0.05
        )
        assert returns[-5:].mean() >= 0.9

    @pytest.mark.bench
    def test_cartpole_as_over_environments_of_its_own(self):
        creator = classic_control.env_creator("CartPole-v1")
        options = {"vectors": 16, "horizon": 128, "num_epochs": 6, "entropy_coeff": 0.01}
        ours = train(creator, 45, 2048, 2.5e-3, **options)
        own = train(creator, 45, 2048, 2.5e-3, own="CartPole-v1", **options)
        np.testing.assert_allclose(ours, own, rtol=1e-6)  # rewards are float32 and float64
        assert ours[-10:].mean() >= 250

    @pytest.mark.bench
    def test_a_game_of_pettingzoo(self):
        """Three that spread over three landmarks."""
        creator = mpe.env_creator("simple_spread")
        returns = train(creator, 25, 2400, 2e-3, entropy_coeff=0.01)
        assert returns[-10:].mean() >= random_return(creator, 200) + 4
