#!/usr/bin/env bash
# Runs in the dev container after it was made: this checkout is what runs, with a native core that
# fits it; then the smoke tests.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The image's installation points to /puffer. It will not do where the checkout lies elsewhere (a
# codespace, a volume of Docker Desktop) or has other native sources than the image.
fits='import pathlib, sys, pufferlib.native as native
sys.exit(pathlib.Path(native.__file__).parents[2] != pathlib.Path.cwd())'
python -W error::RuntimeWarning -c "$fits" 2>/dev/null || tank install
python -m pytest -m smoke -q
