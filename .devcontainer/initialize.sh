#!/usr/bin/env bash
# Runs on the host before the dev container is built: gives the right image the name that
# .devcontainer/Dockerfile starts from, and builds it if it is missing.
#
# Variables: PUFFERTANK_IMAGE names another image (default: puffertank/tank:cuda with a GPU, else
# puffertank/tank:cpu).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

variant=cpu
if nvidia-smi -L 2>/dev/null | grep -q ^GPU; then variant=cuda; fi
image=${PUFFERTANK_IMAGE:-puffertank/tank:$variant}

if ! docker image inspect "$image" >/dev/null 2>&1; then
    [[ -z ${PUFFERTANK_IMAGE:-} ]] || {
        echo "there is no image $image; pull or build it, or unset PUFFERTANK_IMAGE" >&2
        exit 1
    }
    echo "building $image; the first time takes minutes"
    LOCK_HASH=$(python3 pufferlib/lock.py 2>/dev/null || echo unknown) TORCH_VARIANT=$variant \
        docker buildx bake -f docker/bake.json --load
fi
docker tag "$image" puffertank/tank:devcontainer
