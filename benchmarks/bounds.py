"""What bounds a training loop: the network alone, and environments on all cores.

    python benchmarks/bounds.py WORKLOAD [--seconds 3]

Prints, as JSON, microseconds per environment step: of the bare environment and of choosing an
action on one core each, and of learning from a sample with the best number of threads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch
from contestants import bare, steps_per_second
from loops import WORKLOADS, Setting, Workload, made_trainer

from pufferlib import clean_pufferl
from pufferlib.pytorch import sample_actions
from pufferlib.trainer.optimizers import make_optimizer
from pufferlib.vector.sizes import available_cores


def wait_for(device: torch.device) -> None:
    """Let a GPU finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Network:
    """The trainer's network on the trainer's rows, and nothing else.

    Recurrent ones have the resets in their segments that the rows had.
    """

    def __init__(self, trainer: clean_pufferl.Trainer) -> None:
        config, device = trainer.config, trainer.device
        self.trainer = trainer
        self.agents = trainer.vecenv.num_agents
        self.minibatch = config.minibatch_size
        self.epochs = config.update_epochs
        observations = torch.from_numpy(trainer.experience.observations)
        starts = torch.from_numpy(trainer.experience.starts)
        self.rows = observations[: self.agents, 0].to(device)
        self.row_starts = starts[: self.agents, 0].to(device)
        segments = -(-self.minibatch // config.bptt_horizon)
        self.learnt = observations[:segments].to(device)
        self.learnt_starts = starts[:segments].to(device)
        self.state = None
        if trainer.states:
            self.state = trainer.states.of(torch.arange(self.agents).numpy())
        else:
            self.learnt = self.learnt.flatten(0, 1)[: self.minibatch]
        self.optimizer = make_optimizer(config, trainer.policy, device)
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0  # the loop goes on with the same weights

    def speed(self, seconds: float) -> float:
        """Steps per second, if there were only this."""
        act, learn = self.seconds_to_act(seconds / 2), self.seconds_to_learn(seconds / 2)
        return 1 / (act + self.epochs * learn)

    def seconds_to_act(self, seconds: float) -> float:
        """Per step of one agent: forward and sampling; measured for `seconds`."""
        return self._each(self._act, seconds) / self.agents

    def seconds_to_learn(self, seconds: float) -> float:
        """Per sample and pass: forward, backward and optimizer; measured for `seconds`."""
        return self._each(self._learn, seconds) / self.minibatch

    @torch.inference_mode()
    def _act(self) -> None:
        """One step of all agents."""
        sample_actions(self.trainer.act(self.rows, self.state, self.row_starts)[0])

    def _learn(self) -> None:
        """One minibatch."""
        logits, values, _ = self.trainer.run_policy(self.learnt, None, self.learnt_starts)
        self.optimizer.zero_grad(set_to_none=True)
        (logits.square().mean() + values.square().mean()).backward()
        self.optimizer.step()

    def _each(self, function: Callable[[], None], seconds: float) -> float:
        """Seconds per call."""
        function()
        wait_for(self.trainer.device)
        calls, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            function()
            calls += 1
        wait_for(self.trainer.device)
        return (time.perf_counter() - begun) / calls


def microseconds(workload: Workload, seconds: float) -> dict[str, float]:
    """Per environment step: `env`, `act`, `learn`."""
    example = workload.make().env
    example.action_space.seed(0)
    actions = [example.action_space.sample() for _ in range(64)]
    example.close()
    env = 1 / steps_per_second(bare([lambda: workload.make().env], actions), seconds / 3)
    with made_trainer(workload, Setting()) as trainer:
        clean_pufferl.evaluate(trainer)
        network = Network(trainer)
        act = network.seconds_to_act(seconds / 3)
        learn = []
        for threads in range(1, available_cores() + 1):
            torch.set_num_threads(threads)
            learn.append(network.seconds_to_learn(seconds / 3))
    parts = {"env": env, "act": act, "learn": workload.update_epochs * min(learn)}
    return {name: 1e6 * part for name, part in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    print(json.dumps(microseconds(WORKLOADS[args.workload], args.seconds)))


if __name__ == "__main__":
    main()
