// Generalized advantage estimation over S independent segments of H steps.
#pragma once

#include <cstddef>

namespace puffer {

// One row per segment, time along the row; every array has segments * horizon elements.
//
//   delta_t = rewards_t + gamma * next_values_t * (1 - terminals_t) - values_t
//   A_t     = delta_t + gamma * lam * (1 - dones_t) * A_{t+1}      where valid_t, else 0
//
// with A_H = 0. Selections, not products: what is masked out may hold NaN. The arithmetic is
// float32 in this order; pufferlib.native.advantage_scan_numpy repeats it exactly.
inline void advantage_scan(std::size_t segments, std::size_t horizon, const float *rewards,
                           const float *values, const float *next_values, const bool *terminals,
                           const bool *dones, const bool *valid, float gamma, float gamma_lam,
                           float *out) {
    for (std::size_t segment = 0; segment < segments; ++segment) {
        float next_advantage = 0.0f;
        for (std::size_t step = horizon; step-- > 0;) {
            const std::size_t i = segment * horizon + step;
            const float next_value = terminals[i] ? 0.0f : next_values[i];
            const float carried = dones[i] ? 0.0f : next_advantage;
            const float delta = (rewards[i] + gamma * next_value) - values[i];
            next_advantage = valid[i] ? delta + gamma_lam * carried : 0.0f;
            out[i] = next_advantage;
        }
    }
}

}  // namespace puffer
