"""Several agents under one controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gymnasium import spaces
from gymnasium.wrappers.utils import create_zero_array
from pettingzoo.utils import BaseParallelWrapper

from pufferlib.ends import flags_of
from pufferlib.exceptions import APIUsageError
from pufferlib.wrappers.conversion import reset_keywords


class TeamEnv(BaseParallelWrapper[Any, Any, Any]):
    """A parallel environment whose agents are teams of another one's agents.

    A team observes a Tuple with a seat for each member, in its list's order, and acts with such a
    Tuple. Its reward is the sum of the members'. It is in the game until its last member leaves:
    by truncation if one that leaves then is truncated, else by termination. Its info has the
    members' infos by name, those that have one.

    Smaller teams have empty seats at the end. The seats of members that are absent and empty ones
    show zeros (or what their space has nearest to zero); the actions there are dropped.

    Args:
        env: a parallel environment.
        teams: the members of each team, by the team's name.

    Attributes:
        possible_agents: the teams.
        members: dict from team to the tuple of its members.

    Raises:
        APIUsageError: an agent is in no team or in several, or a member does not exist.
    """

    def __init__(self, env: Any, teams: Mapping[Any, Sequence[Any]]) -> None:
        super().__init__(env)
        self.members = {team: tuple(members) for team, members in teams.items()}
        _require_partition(self.members, list(env.possible_agents))
        self.possible_agents = list(self.members)
        self._lives: set[Any] = set()  # members whose life goes on; the list may have others too
        largest = max(self.members.values(), key=len)
        self._observation_spaces, self._action_spaces = (
            {
                team: spaces.Tuple([space(agent) for agent in (*seats, *largest[len(seats) :])])
                for team, seats in self.members.items()
            }
            for space in (env.observation_space, env.action_space)
        )
        self._zeros = {
            team: create_zero_array(space) for team, space in self._observation_spaces.items()
        }

    @property
    def agents(self) -> list[Any]:
        """The teams of which a member is in the game."""
        listed = set(self.env.agents)
        return [team for team, members in self.members.items() if not listed.isdisjoint(members)]

    def observation_space(self, agent: Any) -> spaces.Space[Any]:
        """The Tuple of the seats of team `agent`."""
        return self._observation_spaces[agent]

    def action_space(self, agent: Any) -> spaces.Space[Any]:
        """The Tuple of the seats of team `agent`."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """First observations and infos by team."""
        keywords = reset_keywords(self.env.reset, seed, options)
        observations, infos = self.env.reset(**keywords)
        self._lives = set(self.env.agents)
        teams = self.agents
        return self._joint(teams, observations, self._lives), self._grouped(teams, infos)

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Observations, rewards, terminals, truncations and infos by team."""
        listed, lives = set(self.env.agents), self._lives
        result = self.env.step(self._of_members(actions, listed))
        observations, rewards, terminals, truncations, infos = result
        after = set(self.env.agents)
        deaths = _deaths(lives, after, terminals, truncations)
        self._lives = (lives - deaths.keys()) | (after - listed)
        ends = {team: self._end_of(team, deaths) for team in actions}
        paid = {
            team: float(sum(rewards.get(a, 0.0) for a in self.members[team] if a in lives))
            for team in actions
        }
        teams = list(dict.fromkeys([*actions, *self.agents]))
        return (
            self._joint(teams, observations, lives | self._lives),
            paid,
            {team: end == "terminal" for team, end in ends.items()},
            {team: end == "truncated" for team, end in ends.items()},
            self._grouped(teams, infos),
        )

    def _of_members(self, actions: Mapping[Any, Any], listed: set[Any]) -> dict[Any, Any]:
        """The actions of the listed members, out of those of the teams."""
        pairs = (
            pair
            for team, joint in actions.items()
            for pair in zip(self.members[team], joint, strict=False)  # empty seats come last
        )
        return {agent: action for agent, action in pairs if agent in listed}

    def _end_of(self, team: Any, deaths: Mapping[Any, bool]) -> str | None:
        """How the team left with these deaths, if its last member did."""
        members = self.members[team]
        truncated = [deaths[agent] for agent in members if agent in deaths]
        if not truncated or not self._lives.isdisjoint(members):
            return None
        return "truncated" if any(truncated) else "terminal"

    def _joint(
        self, teams: Sequence[Any], observations: Mapping[Any, Any], shown: set[Any]
    ) -> dict[Any, Any]:
        """The observations of the members to be `shown`, zeros in the other seats."""
        return {
            team: tuple(
                observations[agent] if agent in shown and agent in observations else zero
                for agent, zero in zip_longest(self.members[team], self._zeros[team])
            )
            for team in teams
        }

    def _grouped(self, teams: Sequence[Any], infos: Mapping[Any, Any]) -> dict[Any, Any]:
        return {
            team: {agent: infos[agent] for agent in self.members[team] if infos.get(agent)}
            for team in teams
        }


def _require_partition(teams: Mapping[Any, Sequence[Any]], agents: list[Any]) -> None:
    members = [agent for team in teams.values() for agent in team]
    for agent in [*agents, *members]:
        if agent not in agents or members.count(agent) != 1:
            raise APIUsageError(
                f"teams: expected each of {agents} in one team, got {agent!r} in "
                f"{[team for team, some in teams.items() if agent in some]}"
            )
    if empty := [team for team, some in teams.items() if not some]:
        raise APIUsageError(f"teams: expected at least one member in each, got none in {empty}")


def _deaths(
    lives: set[Any], after: set[Any], terminals: Mapping[Any, Any], truncations: Mapping[Any, Any]
) -> dict[Any, bool]:
    """The lives that end with a step, and whether by truncation."""
    deaths = {}
    for agent in lives:
        terminal, truncated = flags_of(agent, terminals, truncations)
        if terminal or truncated or agent not in after:
            deaths[agent] = truncated
    return deaths
