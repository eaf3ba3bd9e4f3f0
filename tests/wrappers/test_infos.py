"""Infos are dropped, all or all but the last, and nothing else."""

from toys import Echo

from pufferlib.wrappers import LastInfo, NoInfo


class Talkative(Echo):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0], {"frame": 0}

    def step(self, action):
        return *super().step(action)[:4], {"frame": 1}


def test_infos_are_dropped_and_nothing_else():
    with_infos, without = Talkative(7, length=1), NoInfo(Talkative(7, length=1))
    assert without.reset(seed=3)[0].tolist() == with_infos.reset(seed=3)[0].tolist()
    assert (with_infos.step(2)[4], without.step(2)[1:]) == ({"frame": 1}, (1.0, True, False, {}))
    assert without.reset()[1] == {}


def test_the_last_info_is_kept_in_part():
    env = LastInfo(Counting(7, length=2), ["frame"])
    assert env.reset(seed=3)[1] == {}
    assert [env.step(2)[4] for _ in range(2)] == [{}, {"frame": 2}]


class Counting(Echo):
    def step(self, action):
        *result, _ = super().step(action)
        return *result, {"frame": self.clock, "noise": 5}
