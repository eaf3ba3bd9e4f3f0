"""Every family of environments, by name."""

from __future__ import annotations

from pufferlib.environments.row import Row

FAMILIES = (
    Row(
        name="atari",
        description="Atari 2600 games through the Arcade Learning Environment",
        default="ALE/Breakout-v5",
        tasks={"breakout": "ALE/Breakout-v5", "pong": "ALE/Pong-v5"},
        extra="atari",
        packages=("ale_py", "cv2"),
        notes="games are in the package; atari/space_invaders and the like name the others",
    ),
    Row(
        name="butterfly",
        description="PettingZoo's games of cooperation, some of them seen as pixels",
        default="knights_archers_zombies_v11",
        tasks={
            "cooperative_pong": "cooperative_pong_v6",
            "knights_archers_zombies": "knights_archers_zombies_v11",
            "pistonball": "pistonball_v6",
        },
        extra="butterfly",
        packages=("pygame", "pymunk"),
        notes="knights and archers die, the others play to the end; pistonball acts continuously",
    ),
    Row(
        name="classic_control",
        description="Gymnasium's small physics problems",
        default="CartPole-v1",
        tasks={
            "cartpole": "CartPole-v1",
            "acrobot": "Acrobot-v1",
            "mountain_car": "MountainCar-v0",
            "mountain_car_continuous": "MountainCarContinuous-v0",
            "pendulum": "Pendulum-v1",
        },
        notes="images need pygame: pip install 'pufferlib[classic_control]'",
    ),
    Row(
        name="crafter",
        description="Survival in an open world with 22 achievements, seen as small images",
        default="CrafterReward-v1",
        extra="crafter",
        packages=("crafter",),
        notes="about 150 steps a second and core; crafter/CrafterNoReward-v1 has no rewards",
    ),
    Row(
        name="deepmind_lab",
        description="First-person mazes, shooting and psychology: the levels of DMLab-30",
        default="rooms_watermaze",
        packages=("deepmind_lab",),
        elsewhere="DeepMind Lab is in no package index; build its source with Bazel: "
        "https://github.com/google-deepmind/lab/blob/master/docs/users/build.md",
        notes="not run here: tested with a stand-in that speaks its interface",
    ),
    Row(
        name="minerl",
        description="Minecraft, seen and played through MineRL 1.0",
        default="MineRLObtainDiamondShovel-v0",
        packages=("gym", "minerl"),
        elsewhere="MineRL builds Minecraft from the network with JDK 8, which Debian 12 has not, "
        "and wants a gym of 2021; follow https://minerl.readthedocs.io in a separate environment",
        notes="not run here: tested with a stand-in that speaks its interface",
    ),
    Row(
        name="minihack",
        description="Tasks in small worlds of NetHack, from one room to a quest",
        default="MiniHack-Room-Random-5x5-v0",
        extra="minihack",
        packages=("minihack", "nle"),
        notes="minihack/MiniHack-River-v0 and the like name the others",
    ),
    Row(
        name="nethack",
        description="The dungeons of NetHack 3.6 through the NetHack Learning Environment",
        default="NetHackScore-v0",
        extra="nethack",
        packages=("nle",),
        notes="Linux and macOS; several games per process are fine",
    ),
    Row(
        name="ocean",
        description="First-party sanity checks that train in seconds",
        default="squared",
        tasks={
            "bandit": "bandit",
            "breakout_native": "breakout_native",
            "connect_four_native": "connect_four_native",
            "maze_native": "maze_native",
            "memory": "memory",
            "multiagent": "multiagent",
            "password": "password",
            "pong_native": "pong_native",
            "snake_native": "snake_native",
            "spaces": "spaces",
            "squared": "squared",
            "squared_native": "squared_native",
            "stochastic": "stochastic",
        },
    ),
    Row(
        name="smac",
        description="Battles of StarCraft II, every unit an agent",
        default="3m",
        packages=("pysc2", "smac"),
        elsewhere="SMAC is in no package index (what is called smac there is another program): "
        "pip install git+https://github.com/oxwhirl/smac, then StarCraft II and the maps as its "
        "README says",
        notes="not run here: tested with a stand-in that speaks its interface",
    ),
)
