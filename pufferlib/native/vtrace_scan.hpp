// V-trace over S independent segments of H steps.
#pragma once

#include <cstddef>

namespace puffer {

// One row per segment, time along the row; every array has segments * horizon elements.
//
//   rho_t   = min(rho_clip, ratios_t);   c_t = min(c_clip, ratios_t)
//   delta_t = rewards_t + gamma * next_values_t * (1 - terminals_t) - values_t
//   E_t     = rho_t * delta_t + gamma * lam * c_t * (1 - dones_t) * E_{t+1}
//   A_t     = delta_t + gamma * lam * (1 - dones_t) * E_{t+1}             where valid_t, else 0
//
// with E_H = 0. Selections, not products: what is masked out may hold NaN. The arithmetic is
// float32 in this order; pufferlib.native.vtrace_scan_numpy repeats it exactly.
inline void vtrace_scan(std::size_t segments, std::size_t horizon, const float *rewards,
                        const float *values, const float *next_values, const bool *terminals,
                        const bool *dones, const bool *valid, const float *ratios, float gamma,
                        float gamma_lam, float rho_clip, float c_clip, float *advantages,
                        float *errors) {
    for (std::size_t segment = 0; segment < segments; ++segment) {
        float next_error = 0.0f;
        for (std::size_t step = horizon; step-- > 0;) {
            const std::size_t i = segment * horizon + step;
            const float next_value = terminals[i] ? 0.0f : next_values[i];
            const float carried = dones[i] ? 0.0f : next_error;
            const float delta = (rewards[i] + gamma * next_value) - values[i];
            const float rho = ratios[i] < rho_clip ? ratios[i] : rho_clip;
            const float c = ratios[i] < c_clip ? ratios[i] : c_clip;
            advantages[i] = valid[i] ? delta + gamma_lam * carried : 0.0f;
            next_error = valid[i] ? rho * delta + (gamma_lam * c) * carried : 0.0f;
            errors[i] = next_error;
        }
    }
}

}  // namespace puffer
