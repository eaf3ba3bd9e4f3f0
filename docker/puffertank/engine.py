"""What the container engine has. Reading only: changes are commands that the user sees."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
from typing import Any, NamedTuple


class Image(NamedTuple):
    """One image of the engine."""

    id: str
    labels: dict[str, str]

    @property
    def lock(self) -> str:
        """Hash of the lock that it was built from."""
        return self.labels.get("io.puffertank.lock-hash", "unknown")


class NoEngineError(SystemExit):
    """Nothing answers, or what is needed to ask is not installed; the message says what to do."""


def find_image(name: str) -> Image | None:
    """The image of this name in the engine that the `docker` command talks to, or None.

    Raises:
        NoEngineError: no engine answers, or the Docker SDK is not installed.
    """
    sdk = _load_sdk()
    try:
        with contextlib.closing(sdk.DockerClient(base_url=_engine_address())) as client:
            found = client.images.get(name)
    except sdk.errors.ImageNotFound:
        return None
    except sdk.errors.DockerException as error:
        raise NoEngineError(
            f"error: no container engine answers ({error}); is Docker running?"
        ) from error
    return Image(found.id, dict(found.labels))


def _load_sdk() -> Any:
    try:
        sdk = importlib.import_module("docker")
        sdk.DockerClient  # noqa: B018  # the folder `docker` is what is found without the SDK
    except (ImportError, AttributeError):
        raise NoEngineError(
            "error: the Docker SDK for Python is not installed; install the extra dev: "
            "provisioning/venv.sh dev"
        ) from None
    return sdk


def _engine_address() -> str | None:
    """That of the `docker` command's context, which the SDK alone would not see."""
    if "DOCKER_HOST" in os.environ:
        return os.environ["DOCKER_HOST"]
    command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise NoEngineError("error: docker is not installed; see docs/pages/images.md") from None
    return result.stdout.strip() or None
