"""One training run as a user sees it: the loop, its display, its checkpoints, its summary."""

from __future__ import annotations

import errno
import time
from pathlib import Path

from rich.console import Console

from pufferlib import clean_pufferl
from pufferlib.commands.signals import GracefulExit, Interrupted
from pufferlib.exceptions import CheckpointError, ConfigError, PufferError
from pufferlib.trainer.config import Config
from pufferlib.trainer.dashboard import Dashboard, duration, number
from pufferlib.trainer.distributed import ALONE, Group
from pufferlib.trainer.loggers import Loggers, RunInfo, State, make_loggers
from pufferlib.trainer.monitor import Monitor
from pufferlib.trainer.prepare import env_seed
from pufferlib.trainer.progress import (
    EpisodeWindow,
    Score,
    ScoreHistory,
    Snapshot,
    Speedometer,
    numbers,
    time_left,
)
from pufferlib.trainer.record import finish as finish_record
from pufferlib.trainer.setup import base_seed, make_policy, make_vecenv, parameter_count
from pufferlib.vector import VecEnv

LOG_SECONDS = 1.0
"""Seconds between two points of the logged curves."""


class Output(Console):
    """A console whose reader may leave: the run ends then as after any error, with a checkpoint."""

    def on_broken_pipe(self) -> None:
        """Instead of rich's own way, which ends the program on the spot."""
        self.quiet = True  # whatever is still said, nobody hears
        raise BrokenPipeError(errno.EPIPE, "nobody reads what the run prints any more")


class Session:
    """Builds everything that a run needs, then runs it.

    Args:
        config: what to train and how.
        run_dir: where checkpoints and curves go.
        resume: a checkpoint to go on from.
        group: the processes that train together, connected; the first one shows, logs and saves.
        console: where the dashboard and the summary go.
    """

    def __init__(
        self,
        config: Config,
        run_dir: Path,
        resume: Path | None = None,
        group: Group = ALONE,
        console: Console | None = None,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.group = group
        self.console = console or Output(quiet=not group.is_main)
        # Before all that takes time: a package may be missing.
        names = config.train.loggers
        self._loggers = make_loggers(names, self._print) if group.is_main else Loggers({})
        vecenv = make_vecenv(config, group)
        try:
            self.trainer = self._make_trainer(vecenv, resume)
        except BaseException:
            vecenv.close()
            raise
        self._parameters = parameter_count(self.trainer.policy)
        self._monitor = Monitor()
        self._speed = Speedometer()
        self._window = EpisodeWindow()
        self._history = ScoreHistory()
        self._saved: tuple[int, Path] | None = None
        self._next_log = 0.0
        self._unlogged: Snapshot | None = None
        self._state: State = "crashed"  # until it is known to have ended otherwise
        self._error: str | None = None

    def run(self, stop: GracefulExit) -> int:
        """Train to the end, or until `stop`; prints the summary and returns the exit code.

        Whatever ends the run, a checkpoint is written if the weights are finite.
        """
        try:
            with stop.interruptible():
                self._open_loggers()
            exit_code = self._train_and_save(stop)
            self._summarize()
        finally:
            with stop.cleanup():
                self._close()
        return exit_code

    def _make_trainer(self, vecenv: VecEnv, resume: Path | None) -> clean_pufferl.Trainer:
        config = self.config
        policy = make_policy(config, vecenv.driver_env)
        trainer = clean_pufferl.create(
            config.train, vecenv, policy, self.run_dir, config.to_dict(), self.group
        )
        if self.group.size > 1:
            trainer.env_seed = env_seed(base_seed(config), vecenv.num_envs, self.group)
        if resume is not None:
            why_new = clean_pufferl.load_checkpoint(trainer, resume)
            how = f"environments start new episodes: {why_new}" if why_new else "episodes go on"
            self._print(f"resumed at update {trainer.epoch:,} ({how})")
        return trainer

    def _train_and_save(self, stop: GracefulExit) -> int:
        try:
            with Dashboard(self.console) as dashboard:
                self._train(stop, dashboard)
        except Interrupted as interruption:
            self._state = "interrupted"
            self._print(str(interruption))
            self._rescue()
            return interruption.exit_code
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
            self._rescue()
            raise
        self._save()
        self._state = "finished"
        return 0

    def _train(self, stop: GracefulExit, dashboard: Dashboard) -> None:
        interval = self.config.train.checkpoint_interval
        self.trainer.begin(self.trainer.global_step)
        self._speed.mark(self.trainer.global_step)
        while self.trainer.agreed_progress() < 1:
            with stop.interruptible():
                clean_pufferl.evaluate(self.trainer)
            clean_pufferl.train(self.trainer)
            self._observe(dashboard)
            if interval and self.trainer.epoch % interval == 0:
                self._save_midway()
            stop.check()

    def _observe(self, dashboard: Dashboard) -> None:
        """Take in the last update, show it and log it."""
        stats, key = self.trainer.stats, self.config.score_key
        means = numbers(stats)
        self._window.add(means, stats.counts)
        if key in means:
            self._history.add(self.trainer.global_step, means[key], stats.counts[key])
        self._unlogged = self._snapshot()
        dashboard.update(self._unlogged)
        if time.monotonic() >= self._next_log:
            self._log()

    def _log(self) -> None:
        """Log the last update, unless it has been."""
        if self._unlogged is not None:
            self._next_log = time.monotonic() + LOG_SECONDS
            self._loggers.log(_metrics(self._unlogged), self._unlogged.steps)
            self._unlogged = None

    def _snapshot(self) -> Snapshot:
        trainer, elapsed = self.trainer, self.trainer.elapsed
        total_steps = self.config.train.total_timesteps
        fraction = min(trainer.progress(), 1.0)
        schedules = {"learning_rate": trainer.learning_rate, "ent_coef": trainer.ent_coef}
        return Snapshot(
            title=f"puffer train {self.config.env_name}",
            run=str(self.run_dir),
            score_key=self.config.score_key,
            steps=trainer.global_step,
            total_steps=total_steps,
            updates=trainer.epoch,
            elapsed=elapsed,
            time_left=time_left(fraction, elapsed, trainer.first_step / total_steps),
            fraction=fraction,
            steps_per_second=self._speed.mark(trainer.global_step),
            parameters=self._parameters,
            timings=trainer.timings,
            losses=numbers(trainer.losses) | schedules,
            episodes=self._window.episodes,
            stats=self._window.means(),
            counts=self._window.counts(),
            usage=self._monitor.sample(),
        )

    def _save(self) -> None:
        """Write a checkpoint, unless this update has one or another process writes it."""
        if self.group.is_main and (self._saved is None or self._saved[0] != self.trainer.epoch):
            self._saved = self.trainer.epoch, clean_pufferl.save_checkpoint(self.trainer)

    def _save_midway(self) -> None:
        """Write a checkpoint if that is possible: by the next one the disk may have space again."""
        try:
            self._save()
        except CheckpointError as error:
            self._print(f"no checkpoint of update {self.trainer.epoch:,}: {error}")

    def _rescue(self) -> None:
        """Save what can be saved, without hiding the error that ended the run."""
        if not all(weight.isfinite().all() for weight in self.trainer.policy.parameters()):
            self._print("no checkpoint written: the weights are not finite")
            return
        try:
            self._save()
        except (PufferError, OSError) as error:
            self._print(f"no checkpoint written: {error}")
        if self._saved:
            self._print(f"checkpoint of update {self._saved[0]:,}: {self._saved[1]}")

    def _open_loggers(self) -> None:
        config, first_step = self.config.to_dict(), self.trainer.global_step
        self._loggers.open(RunInfo(directory=self.run_dir, config=config, first_step=first_step))

    def _close(self) -> None:
        """What may take long (a server of curves) comes last: after a signal it is broken off."""
        clean_pufferl.close(self.trainer)
        if self.group.is_main:
            self._record_end()
        self._log()
        self._loggers.close(self._state)

    def _record_end(self) -> None:
        trainer = self.trainer
        result = {
            "steps": trainer.global_step,
            "updates": trainer.epoch,
            "seconds": round(trainer.elapsed, 3),
            "parameters": self._parameters,
            "score_at_start": self._history.start().mean,
            "score_at_end": self._history.end().mean,
            "error": self._error,
        }
        try:
            finish_record(self.run_dir, self._state, result)
        except ConfigError as error:
            self._print(str(error))

    def _summarize(self) -> None:
        trainer, key, env_name = self.trainer, self.config.score_key, self.config.env_name
        steps, elapsed = trainer.global_step - trainer.first_step, trainer.elapsed
        speed = steps / elapsed if elapsed else 0.0
        data_dir = self.config.train.data_dir
        where = "" if data_dir == "runs" else f" --data-dir {data_dir}"
        rows = {
            "trained": f"{steps:,} steps in {duration(elapsed)} ({speed:,.0f} steps/s), "
            f"{self._parameters:,} parameters",
            f"{key} at the start": _score(self._history.start(), "first"),
            f"{key} at the end": _score(self._history.end(), "last"),
            "checkpoint": str(self._saved[1]) if self._saved else "none",
            "watch it": f"puffer eval {env_name} --checkpoint latest --render{where}",
        }
        width = max(len(name) for name in rows)
        for name, text in rows.items():
            self._print(f"{name:<{width}}  {text}")

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _metrics(snapshot: Snapshot) -> dict[str, float]:
    """The logged curves, grouped by the part of their name before the slash."""
    return {
        "performance/steps_per_second": snapshot.steps_per_second,
        "performance/updates": snapshot.updates,
        "performance/episodes": snapshot.episodes,
        **{f"train/{name}": value for name, value in snapshot.losses.items()},
        **{f"episodes/{name}": value for name, value in snapshot.stats.items()},
        **{f"seconds/{name}": value for name, value in snapshot.timings.items()},
    }


def _score(score: Score, part: str) -> str:
    if score.mean is None:
        return "no episode ended"
    return f"{number(score.mean)}  (mean of the {part} {score.episodes:,} episodes)"
