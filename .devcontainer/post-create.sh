#!/usr/bin/env bash
# Runs in the dev container after it was made: a native core that fits this checkout, then the
# smoke tests.
set -euo pipefail

cd /puffer
if ! python -W error::RuntimeWarning -c 'import pufferlib.native' 2>/dev/null; then
    pip install --quiet --no-deps --no-build-isolation -e .
fi
python -m pytest -m smoke -q
