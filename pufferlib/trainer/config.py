"""Typed configuration: what can be set, its defaults, and how files override them.

The order of precedence, weakest first, is: the dataclasses below, the file
`pufferlib/config/ENV.toml` (for a user's own environment the one beside its module), the user's
`--config FILE`, what `puffer autotune` has stored (with `--vec.auto True`), the command line. Every
source is checked against the same dataclasses: an unknown key or a value of the wrong type is a
`ConfigError` that names the key, what was expected and what was found.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

from pufferlib.exceptions import ConfigError
from pufferlib.trainer.options import coerce, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

PACKAGED_CONFIGS = Path(__file__).parent.parent / "config"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the policy learns. Every step count is in valid agent steps."""

    seed: int = 1
    """Seeds the policy's weights, the sampled actions, the minibatches and the environments."""
    torch_deterministic: bool = True
    """Let cuDNN choose deterministic algorithms only; without a GPU it changes nothing."""
    device: str = "auto"
    """'auto' takes CUDA if there is a GPU and the CPU otherwise; or a torch device name."""
    # Threads wait for each other in every small operation, so that one busy neighbour (an
    # environment's worker, another run) slows all of them down: on two cores CartPole trains at
    # 4,600 to 6,500 steps/s with one thread and at 900 to 2,600 with two. What they gain on an idle
    # machine is little: nothing on Squared, 15 % on NetHack's convolutions.
    torch_threads: int = 1
    """CPU threads for torch; 0 leaves torch's own choice."""
    total_timesteps: int = 10_000_000
    """Stop after this many agent steps."""
    max_seconds: float | None = None
    """Stop after this much wall-clock time, even if steps are left; anew for a resumed run."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """'muon' moves the matrices between hidden layers and leaves the rest to 'adamw'."""
    weight_decay: float = 0.0
    """Decoupled decay of the weights, of 'adamw' and 'muon'."""
    learning_rate: float = 2.5e-4
    """Step size of the optimizer."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero at the end of the steps or of the time."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Decay of generalized advantage estimation, or of V-trace."""
    vtrace: bool = False
    """Correct advantages for actions that an older policy chose, as pools of environments have."""
    vtrace_rho_clip: float = 1.0
    """Bound of the probability ratio in V-trace's temporal-difference errors."""
    vtrace_c_clip: float = 1.0
    """Bound of the probability ratio in how far V-trace's corrections reach back."""
    update_epochs: int = 4
    """Passes over each batch."""
    batch_size: int | Literal["auto"] = "auto"
    """Agent steps per update; 'auto' is num_agents * bptt_horizon."""
    minibatch_size: int | Literal["auto"] = "auto"
    """Agent steps per optimizer step; 'auto' is a quarter of the batch where it divides."""
    accumulate: int = 1
    """Minibatches whose gradients make one optimizer step together."""
    prio_alpha: float = 0.0
    """Above 0 minibatches are segments drawn by the size of their advantages to this power."""
    prio_beta0: float = 0.4
    """How far such samples are weighted down at the start, from 0; the end of training has 1."""
    bptt_horizon: int = 16
    """Steps in a segment: the reach of backpropagation through time."""
    clip_coef: float = 0.1
    """PPO's clip range of the probability ratio."""
    clip_vloss: bool = True
    """Clip the value loss as well."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    vf_clip_coef: float = 0.1
    """Clip range of the value, where clip_vloss is on."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    ent_coef_final: float | None = None
    """Its weight at the end, approached linearly over the steps or the time; None: the same."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm."""
    norm_adv: bool = True
    """Normalize the advantages of each minibatch."""
    target_kl: float | None = None
    """End an update early once the approximate KL divergence exceeds this."""
    compile: bool = False
    """Compile the policy with torch.compile."""
    compile_mode: str = "default"
    """The mode handed to torch.compile."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """'bf16' calls the policy in bfloat16 where torch holds that to be safe."""
    cuda_graphs: bool = False
    """Replay the policy's choice of actions from a CUDA graph: faster where layers are small."""
    pin_memory: bool = True
    """Keep batches in page-locked memory, which a GPU copies while the program goes on."""
    checkpoint_interval: int = 200
    """Updates between checkpoints; 0 writes one at the end only."""
    resume_episodes: bool = True
    """Checkpoints hold the environments' states where possible, and a resumed run goes on with
    them. Restoring them runs code that the file names; False to resume from files of others."""
    data_dir: str = "runs"
    """Directory that holds the runs."""
    loggers: tuple[Literal["tensorboard", "wandb", "mlflow", "none"], ...] = ("tensorboard",)
    """Where the curves go beside the run's own metrics.jsonl; several may be named."""

    def validate(self) -> None:
        """Raise `ConfigError` for a value that cannot work whatever the environment is."""
        _require_positive(self, "total_timesteps", "learning_rate", "update_epochs")
        _require_positive(self, "bptt_horizon", "clip_coef", "max_grad_norm", "max_seconds")
        _require_positive(self, "batch_size", "minibatch_size", "target_kl", "vf_clip_coef")
        _require_positive(self, "accumulate", "vtrace_rho_clip", "vtrace_c_clip")
        for name in ("gamma", "gae_lambda", "prio_beta0"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ConfigError(f"train.{name}: expected 0 <= {name} <= 1, got {value}")
        names = ("seed", "torch_threads", "checkpoint_interval", "vf_coef", "ent_coef")
        for name in (*names, "ent_coef_final", "prio_alpha", "weight_decay"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"train.{name}: expected at least 0, got {value}")
        if self.weight_decay and self.optimizer == "adam":
            raise ConfigError(
                "train.weight_decay: Adam has none that is decoupled; set train.optimizer adamw"
            )

    def resolve(
        self, num_agents: int, processes: int = 1, recurrent: bool = True
    ) -> ResolvedTrainConfig:
        """The same with sizes that are integers and fit together.

        Args:
            num_agents: of the environments of this process.
            processes: that share the sizes of `self` among them; the result has this one's part.
            recurrent: the policy has a memory, so that a minibatch consists of whole segments.

        Raises:
            ConfigError: the sizes do not fit; names both numbers.
        """
        self.validate()
        unit, of_what = self.bptt_horizon * processes, "train.bptt_horizon"
        if processes > 1:
            of_what += f" times the {processes} processes"
        batch = num_agents * unit if self.batch_size == "auto" else self.batch_size
        require_multiple("train.batch_size", batch, of_what, unit)
        minibatch = self.minibatch_size
        if minibatch == "auto":
            minibatch = _quarter(batch // unit) * unit
        if recurrent or self.prio_alpha:
            require_multiple("train.minibatch_size", minibatch, of_what, unit)
        require_multiple("train.minibatch_size", minibatch, "the processes", processes)
        require_multiple("train.batch_size", batch, "train.minibatch_size", minibatch)
        values = {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self)}
        sizes = {"batch_size": batch // processes, "minibatch_size": minibatch // processes}
        return ResolvedTrainConfig(**(values | sizes))


@dataclass(frozen=True, kw_only=True)
class ResolvedTrainConfig(TrainConfig):
    """A `TrainConfig` whose sizes are known, and those of this process; from `resolve`."""

    batch_size: int
    minibatch_size: int


@dataclass(frozen=True, kw_only=True)
class VecConfig:
    """How environments run in parallel; the arguments of `pufferlib.vector.make`."""

    backend: Literal["serial", "multiprocessing", "ray"] = "multiprocessing"
    """'serial' runs all in this process, 'multiprocessing' in workers, 'ray' in Ray actors."""
    num_envs: int = 8
    """Number of environments."""
    num_workers: int | Literal["auto"] = "auto"
    """Worker processes; 'auto' asks how many cores this process (with 'ray': the cluster) has."""
    batch_size: int | Literal["auto"] = "auto"
    """Environments per batch handed to the policy; 'auto' is all of them."""
    zero_copy: bool = True
    """Batch only neighbouring workers, so that no row is copied."""
    seed: int | None = None
    """Seed of the environments; derived from train.seed if None."""
    timeout: float | None = None
    """Seconds that a worker may take for a step or reset of its environments; None: any."""
    restart: int = 0
    """How often an environment that fails, hangs or loses its worker is made anew."""
    auto: bool = False
    """Take the backend and the sizes that `puffer autotune ENV` has stored on this machine. The
    record of a run says False and has those."""

    def validate(self) -> None:
        """Raise `ConfigError` for an impossible number; `vector.make` checks that sizes divide."""
        for name in ("num_envs", "num_workers", "batch_size"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise ConfigError(f"vec.{name}: expected at least 1, got {value}")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"vec.timeout: expected more than 0, got {self.timeout}")
        if self.restart < 0:
            raise ConfigError(f"vec.restart: expected at least 0, got {self.restart}")


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """An options group without options."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides a run.

    `env` is the environment's `EnvConfig`; `policy` and `rnn` hold the keyword arguments of
    its `Policy` and of the recurrent wrapper. Their classes differ from environment to
    environment: `config_type` builds the subclass that has them all typed.
    """

    env_name: str = ""
    """Name of the environment, as listed by `puffer envs`."""
    score_key: str = "episode_return"
    """The episode statistic that measures success."""
    use_rnn: bool = False
    """Wrap the policy in a recurrent layer."""
    rnn_kind: Literal["lstm", "mingru"] = "lstm"
    """Which one; minGRU trains several times faster, as its steps are parallel over time."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How the policy learns"""
    vec: VecConfig = field(default_factory=VecConfig)
    """How environments run in parallel"""
    env: Any = field(default_factory=NoOptions)
    """Arguments of the environment"""
    policy: Any = field(default_factory=NoOptions)
    """Arguments of the policy"""
    rnn: Any = field(default_factory=NoOptions)
    """Arguments of the recurrent layer"""

    def validate(self) -> None:
        """Raise `ConfigError` for values that cannot work."""
        self.train.validate()
        self.vec.validate()

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dict, ready for JSON."""
        return dataclasses.asdict(self)


def config_type(env: type, policy: type | None = None, rnn: type | None = None) -> type[Config]:
    """The `Config` subclass whose `env`, `policy` and `rnn` groups have these classes."""
    groups = {"env": env, "policy": policy or NoOptions, "rnn": rnn or NoOptions}
    fields = [(name, kind, field(default_factory=kind)) for name, kind in groups.items()]
    made = dataclasses.make_dataclass("Config", fields, bases=(Config,), frozen=True, kw_only=True)
    made.__doc__ = "Everything that decides a run."
    return made


def options_of(constructor: Callable[..., Any], skip: Iterable[str] = ("env", "policy")) -> type:
    """A dataclass of the keyword arguments of `constructor`, from its signature.

    Arguments in `skip`, those without a default and `**kwargs` are left out. An argument
    without an annotation takes the type of its default.
    """
    empty, skipped = inspect.Parameter.empty, set(skip)
    fields: list[Any] = [
        (
            name,
            type(parameter.default) if parameter.annotation is empty else parameter.annotation,
            field(default=parameter.default),
        )
        for name, parameter in inspect.signature(constructor, eval_str=True).parameters.items()
        if name not in skipped and parameter.default is not empty
    ]
    name = f"{getattr(constructor, '__name__', 'Maker')}Options"
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The parsed file; `ConfigError` when it is missing or malformed."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def merge(config: T, values: Mapping[str, Any], source: str, prefix: str = "") -> T:
    """A copy of the dataclass `config` with `values` (nested mappings) put over it.

    `source` and `prefix` only say where a value came from in error messages.

    Raises:
        ConfigError: a key is unknown (the message has the nearest one), or a value of another type.
    """
    hints = _hints(type(config))
    names = [spec.name for spec in dataclasses.fields(config)]
    changes = {}
    for key, value in values.items():
        name, path = key.replace("-", "_"), f"{prefix}{key}"
        if name not in names:
            raise ConfigError(f"{source}: unknown key '{path}'{did_you_mean(name, names, prefix)}")
        current = getattr(config, name)
        if not dataclasses.is_dataclass(current) or isinstance(current, type):
            changes[name] = coerce(value, hints[name], f"{source}: {path}")
        elif isinstance(value, Mapping):
            changes[name] = merge(current, value, source, f"{path}.")
        else:
            raise ConfigError(f"{source}: {path}: expected a table of options, got {value!r}")
    return dataclasses.replace(config, **changes)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _require_positive(config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value not in (None, "auto") and not value > 0:
            raise ConfigError(f"train.{name}: expected more than 0, got {value}")


def require_multiple(name: str, value: int, other: str, divisor: int) -> None:
    """Raise `ConfigError` with the nearest numbers that fit."""
    if value % divisor:
        below, above = value // divisor * divisor, -(-value // divisor) * divisor
        near = f"{below} or {above}" if below else f"{above}"
        raise ConfigError(
            f"{name} ({value}) must be a multiple of {other} ({divisor}); nearest: {near}"
        )


def _quarter(segments: int) -> int:
    """Segments in each of four equal minibatches, or of as many below four as divide them."""
    count = next(count for count in (4, 3, 2, 1) if segments % count == 0)
    return segments // count
