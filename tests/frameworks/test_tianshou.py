"""Tianshou plays and trains our vectorized environments and policies.

In the virtual environment of `constraints/tianshou.txt`, where plain `pytest` collects it too.
"""

import functools
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from toys import Echo, emulate

from pufferlib import vector
from pufferlib.environments import classic_control, ocean
from pufferlib.exceptions import APIUsageError
from pufferlib.models import Default, LSTMWrapper

pytest.importorskip("tianshou")

from tianshou.algorithm import PPO
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.torch_utils import policy_within_training_step

from pufferlib.frameworks.tianshou import TianshouVectorEnv, actor_critic

pytestmark = pytest.mark.timeout(600)


def make_echo(**options):
    return emulate(Echo(**options))


def make(creator, num_envs=2):
    return vector.make(vector.SameStep(creator), num_envs=num_envs)


def test_rows_are_its_environments():
    envs = TianshouVectorEnv(make(functools.partial(make_echo, length=2)))
    assert len(envs) == 2
    assert [space.n for space in envs.action_space] == [5, 5]
    assert envs.get_env_attr("ident", 1) == [0]
    envs.set_env_attr("ident", 7, [1])
    envs.seed([3, 4])
    observations, infos = envs.reset()
    assert observations.tolist() == [[0, -1], [7, -1]]
    assert [info["env_id"] for info in infos] == [0, 1]
    assert [seeds[0] for seeds in envs.get_env_attr("seeds")] == [3, 4]
    envs.step(np.array([1, 2]))
    observations, rewards, terminals, truncations, infos = envs.step(np.array([2]), [1])
    assert observations.tolist() == [[7, 2]]
    assert (rewards.tolist(), terminals.tolist(), truncations.tolist()) == ([1], [True], [False])
    assert infos[0] == {"env_id": 1, "mask": True}
    assert envs.reset([1])[0].tolist() == [[7, -1]]
    envs.close()
    assert envs.is_closed


def test_collected_episodes_are_whole():
    vecenv = make(functools.partial(make_echo, length=3, truncates=True), 4)
    actor, _ = actor_critic(Default(vecenv.driver_env), vecenv.single_action_space)
    buffer = VectorReplayBuffer(40, 4)
    collector = Collector(actor, TianshouVectorEnv(vecenv), buffer)
    collector.reset()
    stats = collector.collect(n_episode=6)
    assert stats.lens.tolist() == [3] * 6
    batch, _ = buffer.sample(0)
    ended = batch.truncated
    np.testing.assert_array_equal(batch.obs_next[ended][:, 1], batch.act[ended])


def test_memory_is_refused():
    vecenv = make(make_echo)
    policy = LSTMWrapper(vecenv.driver_env, Default(vecenv.driver_env))
    with pytest.raises(APIUsageError, match="without memory, got LSTMWrapper"):
        actor_critic(policy, vecenv.single_action_space)


def test_the_example_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "pages" / "learning_libraries.md"
    sources = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    (source,) = (text for text in sources if "frameworks.tianshou" in text)
    names = {}
    exec(source, names)
    assert names["collector"].env.env_num == 64


def train(creator, steps, num_envs, horizon, rate):
    """Train over our environments; the mean return of the episodes that ended in each batch."""
    torch.manual_seed(0)
    vecenv = make(creator, num_envs)
    networks = actor_critic(Default(vecenv.driver_env), vecenv.single_action_space)
    return learn(TianshouVectorEnv(vecenv), *networks, steps, horizon, rate)


def learn(envs, actor, critic, steps, horizon, rate):
    """Train with PPO; the mean return of the episodes that ended in each batch."""
    np.random.seed(0)  # noqa: NPY002 - Tianshou shuffles with it
    algorithm = PPO(
        policy=actor, critic=critic, optim=AdamOptimizerFactory(lr=rate), max_grad_norm=0.5
    )
    size = len(envs) * horizon
    buffer = VectorReplayBuffer(size, len(envs))
    collector = Collector(actor, envs, buffer)
    collector.reset()
    returns = []
    for _ in range(steps // size):
        with policy_within_training_step(actor):
            returns.append(collector.collect(n_step=size).returns.mean())
            algorithm.update(buffer, batch_size=256, repeat=4)
        collector.reset_buffer(keep_statistics=True)
    return np.array(returns)


@pytest.mark.slow
def test_it_trains_on_structured_observations():
    assert train(ocean.env_creator("spaces"), 16_384, 128, 8, 5e-3)[-1] >= 0.9


@pytest.mark.slow
def test_it_trains_several_agents():
    creator = functools.partial(ocean.env_creator("multiagent"), roles="drawn")
    assert train(creator, 20_480, 64, 8, 5e-3)[-1] >= 0.9


@pytest.mark.bench
def test_it_learns_cartpole_as_over_environments_of_its_own():
    vecenv = make(classic_control.env_creator("CartPole-v1"), 16)
    own = DummyVectorEnv([functools.partial(gymnasium.make, "CartPole-v1")] * 16)
    ours = TianshouVectorEnv(vecenv)
    for envs in (own, ours):
        envs.seed(list(range(16)))
    ours.reset()  # as its own have been, by `seed`
    weights, returns = [], []
    for envs in (own, ours):
        torch.manual_seed(0)
        policy = Default(vecenv.driver_env)
        networks = actor_critic(policy, vecenv.single_action_space)
        returns.append(learn(envs, *networks, 102_400, 128, 2.5e-3))
        weights.append(torch.nn.utils.parameters_to_vector(policy.parameters()))
    np.testing.assert_array_equal(*returns)
    assert torch.equal(*weights)
    assert returns[0][-5:].mean() >= 200  # 260, as over its own
