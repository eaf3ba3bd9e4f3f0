#!/bin/bash
# What an image of stage 2 must be able to do, after all that its parent must.
set -euo pipefail

bash "$(dirname "${BASH_SOURCE[0]}")/base.sh"
python -c 'import gymnasium, pettingzoo, numpy, tensorboard, tyro, rich, psutil, cloudpickle'
if [[ ,$PUFFERTANK_ENVS, == *,nethack,* ]]; then
    python -c 'import gymnasium, nle; gymnasium.make("NetHackScore-v0").reset()'
fi
echo "deps: ok"
