"""`puffer eval` plays as the configuration of the checkpoint says."""

import pytest
import torch

from pufferlib.cli import main
from pufferlib.commands import evaluate


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_policy_is_played_with_the_threads_it_was_trained_with(
    tmp_path, monkeypatch, two_threads
):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "squared", "--checkpoint", "random", "--episodes", "1"]) == 0
    assert torch.get_num_threads() == 1


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Where a policy for three targets was trained."""
    path = tmp_path_factory.mktemp("squared")
    options = ["--env.num-targets", "3", "--vec.num-envs", "8", "--train.total-timesteps", "128"]
    assert main(["train", "squared", *options, "--train.data-dir", str(path)]) == 0
    return str(path)


def test_the_environment_is_that_of_the_checkpoint_but_for_what_is_given(directory, monkeypatch):
    played = []
    make = evaluate.make_vecenv
    monkeypatch.setattr(
        evaluate,
        "make_vecenv",
        lambda config, **sizes: played.append(config) or make(config, **sizes),
    )
    for given in ([], ["--env.num-targets", "2"], ["--env.num-targets=4", "--seed", "1"]):
        assert main(["eval", "squared", "--data-dir", directory, "--episodes", "1", *given]) == 0
    assert [config.env.num_targets for config in played] == [3, 2, 4]


def test_an_option_that_changes_the_spaces_is_refused(directory, capsys):
    given = ["--env.distance-to-target", "2"]
    assert main(["eval", "squared", "--data-dir", directory, *given]) == 1
    assert "trained with the observation space Box(-1, 1, (7, 7), int8)" in capsys.readouterr().err


def test_a_mistyped_option_of_the_environment_is_named(capsys):
    assert main(["eval", "password", "--checkpoint", "random", "--env.lenght", "2"]) == 2
    assert "unknown option --env.lenght; did you mean --env.length?" in capsys.readouterr().err
