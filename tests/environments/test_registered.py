"""What Gymnasium's registry makes: ids by module, limits, wrappers, and drawing by MuJoCo."""

import os

import gymnasium
import pytest

from pufferlib.environments.registered import ids_of, make_registered, render_without_display


def test_ids_are_those_of_a_module():
    assert ids_of("gymnasium.envs.classic_control") == [
        "Acrobot-v1",
        "CartPole-v0",
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
    ]
    assert ids_of("gymnasium.envs.classic") == []


class Doubled(gymnasium.RewardWrapper):
    """Twice the reward."""

    def reward(self, reward):
        return 2 * reward


def test_a_wrapper_stands_inside_the_statistics():
    env = make_registered("CartPole-v1", max_episode_steps=3, wrap=Doubled)
    env.reset(seed=0)
    infos = [env.step(1)[4] for _ in range(3)]
    assert infos == [{}, {}, {"episode_return": 6.0, "episode_length": 3}]


def test_pictures_of_others_leave_mujoco_alone(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    make_registered("CartPole-v1", render_mode="rgb_array").close()
    assert "MUJOCO_GL" not in os.environ, "its import would fail where there is no EGL"


@pytest.mark.parametrize(
    ("display", "chosen", "expected"),
    [("", None, "egl"), (":0", None, None), ("", "osmesa", "osmesa")],
)
def test_mujoco_draws_by_egl_where_nothing_else_is_said(monkeypatch, display, chosen, expected):
    monkeypatch.setattr("sys.platform", "linux")
    environment = {"DISPLAY": display} | ({"MUJOCO_GL": chosen} if chosen else {})
    monkeypatch.setattr(os, "environ", environment)
    render_without_display()
    assert os.environ.get("MUJOCO_GL") == expected
