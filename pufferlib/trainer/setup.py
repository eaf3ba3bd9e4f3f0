"""From the name of an environment to its configuration, and from there to running objects."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from pufferlib import environments, vector
from pufferlib.environments.own import OwnEnvironment, is_own
from pufferlib.exceptions import CheckpointError, ConfigError
from pufferlib.models import LSTMWrapper, MinGRUWrapper
from pufferlib.trainer.checkpoint import load_policy
from pufferlib.trainer.config import (
    PACKAGED_CONFIGS,
    Config,
    VecConfig,
    config_type,
    merge,
    options_of,
    read_toml,
    require_multiple,
)
from pufferlib.trainer.distributed import ALONE, Group
from pufferlib.trainer.tuned import command_of, with_tuned_sizes
from pufferlib.vector import VecEnv
from pufferlib.vector.demands import one_per_process
from pufferlib.vector.sizes import Sizes, available_cores


def canonical_name(env_name: str) -> str:
    """The shortest name of the same task: `ocean/squared`, `ocean` and `squared` are `squared`."""
    task = environments.resolve(env_name)
    for short, full in task.row.tasks.items():
        if full == task.task:
            return short
    return task.row.name if task.task == task.row.default else f"{task.row.name}/{task.task}"


def load_config(
    env_name: str,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of an environment: defaults, its own file, `file`, then `overrides`.

    `overrides` is a nested mapping such as `{"train": {"learning_rate": 3e-4}}`. Where `vec.auto`
    is on, what `puffer autotune` has stored goes below `overrides`.

    Raises:
        ConfigError: an unknown environment or key, a value of the wrong type, or nothing usable
            stored.
        EnvironmentSetupError: the environment's packages are not installed.
    """
    files = config_of_files(env_name, file)
    return apply_over(files, lambda below: merge(below, overrides or {}, "overrides"))


def config_of_files(env_name: str, file: str | Path | None = None) -> Config:
    """The defaults, the environment's own file over them, then `file`; raises as `load_config`."""
    config = default_config(env_name)
    own = _file_of(config.env_name)
    if own:
        config = merge(config, read_toml(own), str(own))
    return config if file is None else merge(config, read_toml(Path(file)), str(file))


def apply_over(below: Config, change: Callable[[Config], Config]) -> Config:
    """`change(below)`; if that turns on `vec.auto`, with the stored sizes between the two.

    Raises:
        ConfigError: from `change`, or nothing usable is stored.
    """
    config = change(below)
    if not config.vec.auto:
        return config
    command = command_of(config, config_of_files(config.env_name))
    tuned = with_tuned_sizes(dataclasses.replace(config, vec=below.vec), command)
    config = change(dataclasses.replace(below, vec=tuned.vec))
    return dataclasses.replace(config, vec=dataclasses.replace(config.vec, auto=False))


def default_config(env_name: str) -> Config:
    """The dataclasses' defaults, with the groups `env`, `policy` and `rnn` of this environment."""
    return _default_config(canonical_name(env_name))


def config_from_dict(values: Mapping[str, Any], source: str = "config") -> Config:
    """The inverse of `Config.to_dict`; `source` names the origin in error messages."""
    return merge(default_config(values["env_name"]), values, source)


def make_vecenv(config: Config, group: Group = ALONE, /, **changes: Any) -> VecEnv:
    """The vectorized environments of `config`; `changes` go over its `vec` and `env` options.

    `changes` may hold options of `VecConfig` and `render_mode` or other options of the
    environment; the first kind wins where a name is in both. Of several processes each makes its
    share.
    """
    vec_names = {spec.name for spec in dataclasses.fields(config.vec)}
    vec = {key: value for key, value in changes.items() if key in vec_names}
    env = {key: value for key, value in changes.items() if key not in vec_names}
    env_config = dataclasses.replace(config.env, **env)
    task = environments.resolve(config.env_name)
    creator = environments.load(config.env_name).env_creator(task.task)
    vec_config = dataclasses.replace(config.vec, **vec)
    vec_config = vec_share(vec_config, group, one_per_process([creator]))
    return vector.make(
        creator,
        env_kwargs=_fields(env_config),
        backend=vec_config.backend,
        num_envs=vec_config.num_envs,
        num_workers=_none_if_auto(vec_config.num_workers),
        batch_size=_none_if_auto(vec_config.batch_size),
        zero_copy=vec_config.zero_copy,
        seed=group.own_seed(base_seed(config)),
        timeout=vec_config.timeout,
        restart=vec_config.restart,
    )


def base_seed(config: Config) -> int:
    """What the seeds of the environments come from."""
    return config.train.seed if config.vec.seed is None else config.vec.seed


def vec_share(config: VecConfig, group: Group, one_each: bool = False) -> VecConfig:
    """What one of several processes has of the environments and their workers.

    'auto' workers have a core each, and the processes of a machine divide its cores; but with
    `one_each` they have an environment each.

    Raises:
        ConfigError: a number is no multiple of the number of processes; or 'auto' workers with Ray,
            of which no process knows how many CPUs the others leave.
    """
    if group.size == 1:
        return config
    changes: dict[str, Any] = {}
    for name in ("num_envs", "num_workers", "batch_size"):
        value = getattr(config, name)
        if value != "auto":
            require_multiple(f"vec.{name}", value, "the number of processes", group.size)
            changes[name] = value // group.size
    if config.backend == "multiprocessing" and config.num_workers == "auto":
        share = max(1, available_cores() // group.local_size)
        batch_size = changes.get("batch_size")
        sizes = Sizes.parallel(
            changes["num_envs"], "auto", batch_size, config.zero_copy, share, one_each
        )
        changes["num_workers"] = sizes.num_workers
    elif config.backend == "ray" and config.num_workers == "auto":
        raise ConfigError(
            f"vec.num_workers: expected a number with Ray and {group.size} processes, got 'auto'; "
            "give the actors of all processes together"
        )
    return dataclasses.replace(config, **changes)


def make_policy(config: Config, driver_env: Any) -> torch.nn.Module:
    """The environment's policy with freshly drawn weights; `train.seed` decides them."""
    module = environments.load(config.env_name)
    torch.manual_seed(config.train.seed)
    policy = module.Policy(driver_env, **_fields(config.policy))
    if config.use_rnn:
        wrap = _recurrent(module) if config.rnn_kind == "lstm" else _minimal_gru
        policy = wrap(driver_env, policy, **_fields(config.rnn))
    return policy


def config_of_checkpoint(content: Mapping[str, Any], source: str, env_name: str) -> Config:
    """The configuration that a checkpoint was trained with; `source` is its path for messages.

    Raises:
        CheckpointError: it holds none, or belongs to another environment than `env_name`.
        ConfigError: it has options that this version does not know.
    """
    record = json.loads(content["config"])
    trained_on, wanted = content["env_name"], canonical_name(env_name)
    if not trained_on:
        raise CheckpointError(
            f"{source}: does not say which environment it is for, because the program that wrote "
            "it passed no record to clean_pufferl.create; load it with clean_pufferl"
        )
    if trained_on != wanted:
        raise CheckpointError(f"{source}: was trained on {trained_on}, not on {wanted}")
    return config_from_dict(record, source)


def policy_of_checkpoint(
    content: Mapping[str, Any], source: str, config: Config, vecenv: VecEnv
) -> torch.nn.Module:
    """The policy with the weights of a checkpoint.

    Raises:
        CheckpointError: the spaces of `vecenv` or the shapes of the weights are others.
    """
    for name, trained in content["spaces"].items():
        here = str(getattr(vecenv, f"single_{name}_space"))
        if here != trained:
            raise CheckpointError(
                f"{source}: the policy was trained with the {name} space {trained}, but the "
                f"environment now has {here}; use the env options of the checkpoint"
            )
    policy = make_policy(config, vecenv.driver_env)
    load_policy(policy, content["policy"], source)
    return policy


def parameter_count(policy: torch.nn.Module) -> int:
    """How many numbers training adjusts."""
    return sum(weight.numel() for weight in policy.parameters() if weight.requires_grad)


@functools.cache
def _default_config(env_name: str) -> Config:
    module = environments.load(env_name)
    kind = config_type(
        env=_env_options(module, environments.resolve(env_name).task),
        policy=options_of(module.Policy),
        rnn=options_of(_recurrent(module)),
    )
    return kind(env_name=env_name)


def _env_options(module: Any, task: str) -> type:
    """The dataclass of a task's arguments; a user's own maker says them in its signature."""
    if isinstance(module, OwnEnvironment):
        return options_of(module.maker, skip=())
    task_configs: Mapping[str, type] = getattr(module, "CONFIGS", {})
    return task_configs.get(task, module.EnvConfig)


def _minimal_gru(driver_env: Any, policy: Any, num_layers: int = 1, **sizes: int) -> MinGRUWrapper:
    """A minGRU of the policy's width, with the options of an environment's recurrent wrapper."""
    width = {"input_size": policy.hidden_size, "hidden_size": policy.hidden_size}
    return MinGRUWrapper(driver_env, policy, **(width | sizes), num_layers=num_layers)


def _recurrent(module: Any) -> type:
    return getattr(module, "Recurrent", LSTMWrapper)


def _file_of(env_name: str) -> Path | None:
    """The file of the task, else that of its family; of a user's own the one beside its module."""
    if is_own(env_name):
        return environments.load(env_name).config_file
    family = environments.resolve(env_name).row.name
    candidates = (PACKAGED_CONFIGS / f"{name}.toml" for name in (env_name, family))
    return next((path for path in candidates if path.is_file()), None)


def _fields(options: Any) -> dict[str, Any]:
    return {spec.name: getattr(options, spec.name) for spec in dataclasses.fields(options)}


def _none_if_auto(size: Any) -> Any:
    return None if size == "auto" else size
