"""`puffer eval ENV`: measure a trained policy, watch it in the terminal, or film it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pufferlib.commands.arguments import parse_arguments
from pufferlib.commands.train import split_environment
from pufferlib.exceptions import ConfigError
from pufferlib.trainer import checkpoint
from pufferlib.trainer.config import Config
from pufferlib.trainer.evaluate import EvalResult, evaluate_policy
from pufferlib.trainer.prepare import pick_device, use_threads
from pufferlib.trainer.rendering import Player, TerminalPlayer, VideoWriter
from pufferlib.trainer.runs import find_checkpoint, run_dir_of
from pufferlib.trainer.setup import (
    canonical_name,
    config_of_checkpoint,
    load_config,
    make_vecenv,
    policy_of_checkpoint,
)
from pufferlib.vector import VecEnv

RANDOM = "random"
OWN_VIDEO = Path("run")
DEFAULT_FPS = 10.0


@dataclass(frozen=True, kw_only=True)
class EvalArguments:
    """Play whole episodes with a trained policy and print its mean score.

    Options of the environment are those that it was trained with; each may be given anew.
    """

    checkpoint: str = "latest"
    """'latest', the name of a run, a checkpoint file; or 'random' for uniformly random actions."""
    episodes: int = 20
    """Episodes at least; every environment plays the same number."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""
    render: bool = False
    """Show the first environment in the terminal."""
    save_video: Path | None = None
    """Film the first environment into this file (.mp4, .gif; needs the extra 'video'); 'run' is a
    file of the update's number in the directory of the run."""
    fps: float | None = None
    """Frames per second; None takes what the environment suggests."""
    seed: int = 0
    """Seeds the environments and the sampled actions."""
    data_dir: str = "runs"
    """Directory that holds the runs."""


def evaluate(arguments: Sequence[str]) -> int:
    """The command `puffer eval`; returns its exit code.

    Raises:
        ConfigError: an option is impossible.
        CheckpointError: there is no such checkpoint, or it does not fit the environment.
    """
    env_name, rest = split_environment(arguments, "eval")
    name = canonical_name(env_name)
    # Twice, since the defaults of the group `env` are those of the checkpoint that is named.
    config = load_config(name)
    options, _ = _parse(config, rest, env_name)
    _require_possible(options)
    if options.checkpoint == RANDOM:
        content, source = None, "random actions"
    else:
        path = find_checkpoint(options.checkpoint, name, options.data_dir)
        content, source = checkpoint.read(path), str(path)
        config = config_of_checkpoint(content, source, name)
        if options.save_video == OWN_VIDEO:
            options = dataclasses.replace(options, save_video=_video_of_run(path, content["epoch"]))
    config = dataclasses.replace(config, env=_parse(config, rest, env_name)[1])
    result = _play(config, content, source, options)
    print(report(result, config.score_key, source))
    return 0


def _parse(config: Config, words: Sequence[str], env_name: str) -> tuple[EvalArguments, Any]:
    """The options, and those of the environment over what `config` has."""
    env = ("env", type(config.env), dataclasses.field(default=config.env))
    kind: Any = dataclasses.make_dataclass(
        "Arguments", [env], bases=(EvalArguments,), frozen=True, kw_only=True
    )
    kind.__doc__ = EvalArguments.__doc__
    parsed = parse_arguments(kind, words, f"puffer eval {env_name}", kind())
    own = {spec.name: getattr(parsed, spec.name) for spec in dataclasses.fields(EvalArguments)}
    return EvalArguments(**own), parsed.env


def _require_possible(options: EvalArguments) -> None:
    if options.episodes < 1:
        raise ConfigError(f"--episodes: expected at least 1, got {options.episodes}")
    if options.fps is not None and not options.fps > 0:
        raise ConfigError(f"--fps: expected more than 0, got {options.fps}")


def report(result: EvalResult, score_key: str, source: str) -> str:
    """The result in a few lines of text."""
    low, high = result.interval95
    means = {
        "episode_return": sum(result.returns) / result.episodes,
        "episode_length": sum(result.lengths) / result.episodes,
    }
    rest = "  ".join(f"{name} {mean:.2f}" for name, mean in means.items() if name != score_key)
    return (
        f"{source}\n{score_key} {result.mean:.3f}  (95% interval {low:.3f} to {high:.3f}, "
        f"{result.episodes:,} episodes)\n{rest}"
    )


def _video_of_run(path: Path, epoch: int) -> Path:
    run_dir = run_dir_of(path)
    if run_dir is None:
        raise ConfigError(f"--save-video run: {path} lies in no run; name a file")
    directory = run_dir / "videos"
    directory.mkdir(exist_ok=True)
    return directory / f"{epoch:06d}.mp4"


def _play(
    config: Config, content: dict[str, Any] | None, source: str, options: EvalArguments
) -> EvalResult:
    use_threads(config.train.torch_threads)
    with contextlib.ExitStack() as stack:
        vecenv = stack.enter_context(_make_vecenv(config, options))
        policy = None
        if content is not None:
            policy = policy_of_checkpoint(content, source, config, vecenv)
            policy.to(pick_device("auto"))  # the device of training may be another machine's
        players = _players(options, vecenv, stack)
        return evaluate_policy(
            vecenv,
            policy,
            options.episodes,
            options.greedy,
            options.seed,
            config.score_key,
            on_step=_show_on(players, vecenv) if players else None,
        )


def _make_vecenv(config: Config, options: EvalArguments) -> VecEnv:
    """One environment to look at, or as many as training has."""
    if not (options.render or options.save_video):
        num_envs = min(config.vec.num_envs, options.episodes)
        return make_vecenv(config, num_envs=num_envs, num_workers="auto", batch_size="auto")
    changes: dict[str, Any] = {"backend": "serial", "num_envs": 1, "batch_size": "auto"}
    if getattr(config.env, "render_mode", "ansi") is None:
        changes["render_mode"] = "rgb_array"
    return make_vecenv(config, **changes)


def _players(options: EvalArguments, vecenv: VecEnv, stack: contextlib.ExitStack) -> list[Player]:
    metadata = vecenv.get_attr("metadata", indices=[0])[0] or {}
    fps = options.fps or float(metadata.get("render_fps") or DEFAULT_FPS)
    players: list[Player] = []
    if options.save_video:
        players.append(stack.enter_context(VideoWriter(options.save_video, fps)))
    if options.render:
        players.append(stack.enter_context(TerminalPlayer(fps)))
    return players


def _show_on(players: list[Player], vecenv: VecEnv) -> Callable[[], None]:
    def show() -> None:
        frame = vecenv.render()
        for player in players:
            player.show(frame)

    return show
