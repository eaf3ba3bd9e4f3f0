"""`puffer eval` plays as the configuration of the checkpoint says."""

import pytest
import torch

from pufferlib.cli import main


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
