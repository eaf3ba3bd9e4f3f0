#!/bin/bash
# What an image of stage 2 must be able to do, after all that its parent must.
set -euo pipefail

bash "$(dirname "${BASH_SOURCE[0]}")/base.sh"

fail() {
    echo "deps: $*" >&2
    exit 1
}

# try "NAME..." CODE: run the code if one of these environments was chosen.
try() {
    local name
    for name in $1; do
        if [[ ,${PUFFERTANK_ENVS// /}, == *,$name,* ]]; then
            python -c "$2" || fail "$name does not work"
            return
        fi
    done
}

python -c 'import gymnasium, pettingzoo, numpy, tensorboard, tyro, rich, psutil, cloudpickle'
# Without an index, whatever is not there yet is an error.
pip install --dry-run --quiet --no-index -r /opt/puffertank/python.txt \
    || fail "the list of Python packages is not installed"

try "nethack minihack common" '
import gymnasium, nle
gymnasium.make("NetHackScore-v0").reset()'
try "minihack" '
import gymnasium, minihack
gymnasium.make("MiniHack-Room-5x5-v0").reset()'
try "butterfly common" '
from pettingzoo.butterfly import pistonball_v6
pistonball_v6.parallel_env().reset()'
try "mpe common" '
from mpe2 import simple_spread_v3
simple_spread_v3.parallel_env().reset()'
try "procgen" '
import procgen
assert procgen.ProcgenGym3Env(num=1, env_name="coinrun").observe()[1]["rgb"].any()'
try "griddly" '
import gym, griddly
env = gym.make("GDY-Sokoban-v0", disable_env_checker=True).unwrapped
env.reset()
assert env.render(observer="global", mode="rgb_array").any()'
try "microrts" '
from gym_microrts import microrts_ai
from gym_microrts.envs.vec_env import MicroRTSGridModeVecEnv
envs = MicroRTSGridModeVecEnv(
    num_selfplay_envs=0, num_bot_envs=1, ai2s=[microrts_ai.passiveAI],
    map_paths=["maps/8x8/basesWorkers8x8.xml"], reward_weight=[1.0] * 6)
assert envs.reset().shape == (1, 8, 8, 27)'
echo "deps: ok"
