// What every native environment implements: a table of a few functions over plain memory.
//
// A *world* is one independent copy of a game, with one or more agents, each of which has a row in
// every array. A call works on a range of worlds, one after the other in memory, so that threads
// can share the work. Nothing here allocates, and nothing of the C library is needed but memset and
// memcpy, which compilers call by themselves: the same sources run in a web page.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An episode that ended.
typedef struct {
    float score;           // 0 to 1
    float episode_return;  // the sum of the rewards
    int32_t episode_length;
} Record;

// The rows of the first agent of the first world; those of the others follow.
typedef struct {
    void *observations;
    void *final_observations;
    const int64_t *actions;  // each of 0 … num_actions - 1
    float *rewards;
    bool *terminals;    // false, until the game says otherwise
    bool *truncations;  // same
    bool *masks;
    Record *records;  // where the next one goes
} Rows;

typedef struct {
    const char *name;
    int num_options;
    int num_actions;
    // Rows of a world, bytes of an agent's observation, bytes of a world's state: a multiple of 8,
    // and 0 for options that are impossible.
    size_t (*num_agents)(const int32_t *options);
    size_t (*observation_size)(const int32_t *options);
    size_t (*state_size)(const int32_t *options);
    // Begin an episode in each world. A state's first 8 bytes are its stream of random numbers,
    // which is there already; the rest is unknown.
    void (*reset)(const int32_t *options, void *states, size_t num_worlds);
    // Write all observations from the states.
    void (*observe)(const int32_t *options, const void *states, size_t num_worlds, Rows rows);
    // Play a step and write what changed in the rows, which hold what was written last. An agent
    // whose episode ends adds a record, in the order of the rows, and begins the next one; the last
    // observation of a truncated episode goes to final_observations. Returns where the next record
    // would go.
    Record *(*step)(const int32_t *options, void *states, size_t num_worlds, Rows rows);
    // The picture of one world, from its state alone: rows × columns pixels of red, green and blue.
    size_t (*picture_rows)(const int32_t *options);
    size_t (*picture_columns)(const int32_t *options);
    void (*draw)(const int32_t *options, const void *state, uint8_t *rgb);
} Game;

// Colour the pixel at `index` of a picture with 0xRRGGBB.
static inline void set_pixel(uint8_t *rgb, size_t index, uint32_t color) {
    rgb[3 * index] = (uint8_t)(color >> 16);
    rgb[3 * index + 1] = (uint8_t)(color >> 8);
    rgb[3 * index + 2] = (uint8_t)color;
}

extern const Game *const GAMES[];
extern const size_t NUM_GAMES;

extern const Game BREAKOUT;
extern const Game CONNECT_FOUR;
extern const Game MAZE;
extern const Game PONG;
extern const Game SNAKE;
extern const Game SQUARED;
