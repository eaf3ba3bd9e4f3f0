"""Makes any Gymnasium or parallel PettingZoo environment look flat, with constant agents.

`GymnasiumPufferEnv` and `PettingZooPufferEnv` keep the API of what they wrap. Vectorization calls
`bind(buffers)` and steps the returned object, which speaks the native contract of
`pufferlib.environment.PufferEnv`: it writes rows in place and resets itself. A `Postprocessor` of
yours may featurize observations and shape rewards on the way.
"""

from pufferlib.emulation.common import Emulated
from pufferlib.emulation.multi_agent import PettingZooPufferEnv
from pufferlib.emulation.postprocessing import Postprocessor, Transition
from pufferlib.emulation.single_agent import GymnasiumPufferEnv

__all__ = [
    "Emulated",
    "GymnasiumPufferEnv",
    "PettingZooPufferEnv",
    "Postprocessor",
    "Transition",
]
