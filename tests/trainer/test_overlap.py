"""Environments of one half step while the policy acts for the other."""

import torch
from small_runs import start, update, weights

from pufferlib import clean_pufferl


def test_whoever_is_acted_for_has_the_other_half_under_way(tmp_path, monkeypatch):
    trainer = start(tmp_path, batch_size=2)
    vecenv, events = trainer.vecenv, []
    recv, send, actor = vecenv.recv, vecenv.send, trainer.actor

    def note_recv():
        result = recv()
        events.append(("rows of", tuple(result[5])))
        return result

    def note_act(*inputs):
        events.append(("act for", events[-1][1]))
        return actor(*inputs)

    def note_send(actions):
        events.append(("step", events[-1][1]))
        send(actions)

    monkeypatch.setattr(vecenv, "recv", note_recv)
    monkeypatch.setattr(vecenv, "send", note_send)
    trainer.actor = note_act
    update(trainer)
    cycle = [
        (what, agents) for agents in ((0, 1), (2, 3)) for what in ("rows of", "act for", "step")
    ]
    # Eight steps of four agents; the ninth rows of the last half fill the batch and wait.
    expected = cycle * 8 + [*cycle, cycle[0]]
    assert events[: 6 * 8] == expected[: 6 * 8]
    assert events[6 * 8 :] == [*cycle[:3], *cycle[3:5]]
    clean_pufferl.close(trainer)


def test_halves_in_one_process_give_the_same_run_again(tmp_path):
    runs = []
    for _ in range(2):
        trainer = start(tmp_path, batch_size=2)
        runs.append((update(trainer, times=3), weights(trainer)))
        clean_pufferl.close(trainer)
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])
