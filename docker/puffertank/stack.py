"""The images: their names, parents and how they are built. docker/bake.json is the one list."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pufferlib
from pufferlib.lock import lock_hash
from puffertank import engine
from puffertank.runner import ROOT, Runner

BAKE_FILE = "docker/bake.json"
RUN_SCRIPT = "docker/run-tank.sh"


@dataclass(frozen=True)
class Stack:
    """The three images of one variant, in this machine's engine."""

    variant: str
    registry: str = ""
    run: Runner = field(default_factory=Runner)

    @cached_property
    def lock(self) -> str:
        """Hash of this checkout's lock."""
        return lock_hash(ROOT)

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Targets of the bake file, parents first."""
        parents = {name: _parent(target) for name, target in self._targets.items()}
        children = {parent: name for name, parent in parents.items()}
        chain: list[str] = []
        while len(chain) < len(parents):
            chain.append(children[chain[-1] if chain else None])
        return tuple(chain)

    @cached_property
    def _targets(self) -> dict[str, Any]:
        content = json.loads((ROOT / BAKE_FILE).read_text())
        return {name: each for name, each in content["target"].items() if "dockerfile" in each}

    def image(self, stage: str) -> str:
        """Name and tag in this machine's engine."""
        (tag,) = self._targets[stage]["tags"]
        return tag.replace("${TORCH_VARIANT}", self.variant)

    @property
    def images(self) -> list[str]:
        """All of them, parents first."""
        return [self.image(stage) for stage in self.stages]

    def find(self, name: str) -> engine.Image | None:
        """The image of this name; a dry run without an engine takes it to be missing."""
        try:
            return engine.find_image(name)
        except engine.NoEngineError as error:
            if not self.run.dry_run:
                raise
            print(f"{error}; going on as if there were no images")
            return None

    def build(
        self,
        stage: str,
        envs: str = "",
        settings: Sequence[str] = (),
        parents: bool = False,
        version: str = pufferlib.__version__,
    ) -> None:
        """Build a stage, and before it those parents that are missing or of another lock.

        One after the other: with its parent always named as an image, a stage has the same key in
        the engine's cache whether the parent was just built or was there before.

        Args:
            stage: A target of the bake file.
            envs: Environments of stage 2, separated by commas; empty: what the bake file says.
            settings: Further `--set` arguments of bake.
            parents: Build every parent, too; what has not changed comes from the engine's cache.
            version: For the label.
        """
        chain = self.stages[: self.stages.index(stage) + 1]
        first = 0 if parents else self._first_to_build(chain, envs)
        variables = self._variables(envs, version)
        for index, target in enumerate(chain[first:], first):
            overrides = list(settings)
            if index:
                parent = f"docker-image://{self.image(chain[index - 1])}"
                overrides.insert(0, f"{target}.contexts.parent={parent}")
            flags = [word for setting in overrides for word in ("--set", setting)]
            bake = ("docker", "buildx", "bake", "--file", BAKE_FILE, "--load")
            self.run(*bake, *flags, target, variables=variables)

    def ensure(self, stage: str) -> str:
        """The name of a stage's image, which is built if it is missing."""
        if self.find(self.image(stage)) is None:
            self.build(stage)
        return self.image(stage)

    def start(self, command: str) -> None:
        """Run a command in a container of the last stage, whose image is built if it is missing."""
        flags = ["--no-gpu"] if self.variant == "cpu" else []
        image = self.ensure(self.stages[-1])
        self.run(RUN_SCRIPT, *flags, "--image", image, "--", *shlex.split(command))

    def push(self, release: bool = False) -> None:
        """Push all stages to the registry; `release`: also under the version."""
        tags = [self.variant]
        if release:
            tags.append(f"{pufferlib.__version__}-{self.variant}")
        for name in self.images:
            for tag in tags:
                remote = f"{self._registry()}/{name.rpartition(':')[0]}:{tag}"
                self.run("docker", "tag", name, remote)
                self.run("docker", "push", remote)

    def pull(self, tag: str = "") -> None:
        """Pull all stages and give them their local names, if they are of this checkout's lock."""
        for name in self.images:
            remote = f"{self._registry()}/{name.rpartition(':')[0]}:{tag or self.variant}"
            self.run("docker", "pull", remote)
            self.refuse_another_lock(remote)
            self.run("docker", "tag", remote, name)

    def refuse_another_lock(self, name: str) -> engine.Image:
        """The image, if it was built from the lock of this checkout.

        Raises:
            SystemExit: it was not, or there is none.
        """
        image = self.find(name)
        if image is None and self.run.dry_run:
            return engine.Image("unknown", {})
        if image is None:
            raise SystemExit(f"error: there is no image {name}; build it: invoke build-stage3")
        if image.lock != self.lock:
            raise SystemExit(
                f"error: {name} was built from lock {image.lock}, this checkout has {self.lock}; "
                "check out the commit of the images, or build them here: invoke build-stage3"
            )
        return image

    def _first_to_build(self, chain: Sequence[str], envs: str) -> int:
        for index, stage in enumerate(chain[:-1]):
            reason = self._why_outdated(stage, envs)
            if reason:
                print(f"{self.image(stage)} {reason}: building it first")
                return index
        return len(chain) - 1

    def _why_outdated(self, stage: str, envs: str) -> str:
        image = self.find(self.image(stage))
        if image is None:
            return "is missing"
        if image.lock != self.lock:
            return f"is of lock {image.lock}, this checkout has {self.lock}"
        built = image.labels.get("io.puffertank.envs")
        if envs and built is not None and built != envs:
            return f"is for ENVS={built}, not {envs}"
        return ""

    def _variables(self, envs: str, version: str) -> dict[str, str]:
        given = {"ENVS": envs, "TORCH_INDEX": os.environ.get("PUFFER_TORCH_INDEX", "")}
        return {
            "TORCH_VARIANT": self.variant,
            "VERSION": version,
            "REVISION": revision(),
            "LOCK_HASH": self.lock,
            **{name: value for name, value in given.items() if value},
        }

    def _registry(self) -> str:
        registry = self.registry or os.environ.get("PUFFER_REGISTRY", "")
        if not registry:
            raise SystemExit(
                "error: expected --registry HOST[/PATH], or PUFFER_REGISTRY to name one"
            )
        return registry.rstrip("/")


def choose(cpu: bool, cuda: bool, registry: str = "", dry_run: bool = False) -> Stack:
    """The stack of the variant that was asked for; by default what this machine can use."""
    if cpu and cuda:
        raise SystemExit("error: --cpu and --cuda exclude each other")
    if not cpu and not cuda:
        from pufferlib.commands import machine  # needs the library's packages; the options do not

        cuda = machine.has_nvidia_gpu()
        found = "an NVIDIA GPU: CUDA" if cuda else "no NVIDIA GPU: CPU"
        print(f"This machine has {found} images (--{'cpu' if cuda else 'cuda'} for the others).")
    return Stack("cuda" if cuda else "cpu", registry, Runner(dry_run))


def revision() -> str:
    """The commit of this checkout, `-dirty` with changes, or `unknown` outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    except OSError:
        return "unknown"
    return result.stdout.strip() or "unknown"


def _parent(target: dict[str, Any]) -> str | None:
    contexts = target.get("contexts", {}).values()
    return next((c.removeprefix("target:") for c in contexts if c.startswith("target:")), None)
