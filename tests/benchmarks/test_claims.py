"""What `benchmarks/claims.py` says of measured speeds, and what it measures with."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch


@pytest.fixture
def claims(load):
    return load("claims")


def test_a_claim_is_judged_by_our_fastest_and_its_bound(claims):
    claim = claims.Claim("twice", "noop", own=("slow", "fast"), peers=("peer",))
    speeds = {"slow": 1500.0, "fast": 3000.0, "peer": 2000.0, claims.BOUND: 5000.0}
    shown, bound = claims.judged(claim, speeds)
    assert shown == "3,000 steps/s (fast)\n1.50× peer"
    assert bound == "5,000 steps/s\n2.50×"


def test_every_claim_is_of_known_contestants_and_of_one_workload(claims):
    known = set(claims.contestants((claims.CORES,)))
    for group in claims.CLAIMS.values():
        assert len({claim.workload for claim in group}) == 1
        assert group[0].workload in claims.WORKLOADS
        assert {name for claim in group for name in (*claim.own, *claim.peers)} <= known


def test_the_advantages_of_the_loop_stop_at_ends(load, monkeypatch):
    atari_loop = load("atari_loop")
    monkeypatch.setattr(atari_loop, "NUM_STEPS", 2)
    monkeypatch.setattr(atari_loop, "NUM_ENVS", 1)
    agent = SimpleNamespace(act=lambda observations: (None, None, torch.tensor([3.0])))
    loop = atari_loop.Loop(atari_loop.Side(np.zeros((1, 4)), None), agent)
    ones = [torch.ones(1), torch.ones(1)]
    values = [torch.tensor([1.0]), torch.tensor([2.0])]
    for ended, first in ((1.0, 0.0), (0.0, 1.98 + 0.99 * 0.95 * 1.97)):
        columns = {"rewards": ones, "values": values, "ended": [None, torch.tensor([ended])]}
        found = torch.cat(loop.advantages(columns)).tolist()
        assert found == pytest.approx([first, 1 + 0.99 * 3 - 2])


def test_the_cartridge_s_header_is_what_a_console_checks(load):
    image = load("gameboy").cartridge()
    assert len(image) == 32 * 1024
    check = 0
    for byte in image[0x134:0x14D]:
        check = (check - byte - 1) & 0xFF
    assert image[0x14D] == check
