// SplitMix64, the generator of all Ocean environments; its twin is ocean/splitmix.py.
//
// Output n of a stream is a mix of seed + n * GAMMA: a counter is the whole state.
// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#pragma once

#include <stdint.h>

#define SPLITMIX_GAMMA 0x9E3779B97F4A7C15u

// The next number of the stream, uniform over 0 to 2^64 - 1.
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += SPLITMIX_GAMMA;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// An integer of 0 to n - 1: the high 32 bits times n, over 2^32.
static inline uint32_t random_below(uint64_t *state, uint32_t n) {
    return (uint32_t)(((random_next(state) >> 32) * n) >> 32);
}

// A float of -1 to 1 (1 excluded): one of 2^24, evenly spaced.
static inline float random_signed(uint64_t *state) {
    return (float)((int32_t)(random_next(state) >> 40) - (1 << 23)) / (float)(1 << 23);
}
