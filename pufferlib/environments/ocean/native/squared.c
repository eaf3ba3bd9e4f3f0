// Squared: the rules are in the docstring of ocean/sanity.py, whose twin this is, bit for bit.
#include "game.h"
#include "random.h"

enum { EMPTY = 0, TARGET = 1, AGENT = -1 };
enum { DISTANCE, TARGETS };  // the options
enum { MAX_DISTANCE = 127, MAX_TARGETS = 8 * MAX_DISTANCE };

// Left, right, up, down, then the diagonals.
static const int8_t DOWN[] = {0, 0, -1, 1, 1, -1, 1, -1};
static const int8_t RIGHT[] = {-1, 1, 0, 0, -1, -1, 1, 1};

typedef struct {
    uint8_t row, column;
} Cell;

typedef struct {
    uint64_t random;
    uint32_t tick;
    uint16_t open;    // targets[0 … open - 1] are not hit yet
    uint16_t at;      // the agent's cell in the observation
    uint8_t nearest;  // moves from the agent to the nearest of them; `distance` if there is none
    Cell agent;
    Cell targets[];
} World;

static size_t num_agents(const int32_t *options) {
    (void)options;
    return 1;
}

static size_t side_of(const int32_t *options) {
    return 2 * (size_t)options[DISTANCE] + 1;
}

static size_t observation_size(const int32_t *options) {
    return side_of(options) * side_of(options);
}

static size_t state_size(const int32_t *options) {
    const int32_t distance = options[DISTANCE], targets = options[TARGETS];
    if (distance < 1 || distance > MAX_DISTANCE || targets < 1 || targets > 8 * distance) return 0;
    return (offsetof(World, targets) + (size_t)targets * sizeof(Cell) + 7) / 8 * 8;
}

static World *world_at(const void *states, size_t i, size_t size) {
    return (World *)((char *)states + i * size);
}

static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }

// Cell `i` of the edge, in the order of reading. Selections, not branches: `i` is random.
static Cell edge_cell(uint32_t i, uint32_t distance) {
    const uint32_t last = 2 * distance, bottom = 6 * distance - 1;
    const uint32_t below = i - last - 1;  // two cells a row from the second row on
    const uint32_t side_row = 1 + below / 2, side_column = (below & 1) * last;
    const bool is_top = i <= last, is_bottom = i >= bottom;
    const uint32_t row = is_top ? 0 : is_bottom ? last : side_row;
    const uint32_t column = is_top ? i : is_bottom ? i - bottom : side_column;
    return (Cell){(uint8_t)row, (uint8_t)column};
}

// The entry at `position` of the list 0, 1, 2 … after `swaps` entries were exchanged.
static uint16_t entry_at(uint16_t position, const uint16_t *positions, const uint16_t *entries,
                         int swaps) {
    for (int i = swaps; i-- > 0;)
        if (positions[i] == position) return entries[i];
    return position;
}

// A partial Fisher-Yates shuffle of the edge, as SplitMix64.sample does it. Only what was exchanged
// is kept; the loop back over it costs less than one operation for each step of the episode.
static void draw_targets(World *world, uint32_t distance, int targets) {
    uint16_t positions[MAX_TARGETS], entries[MAX_TARGETS];
    for (int i = 0; i < targets; ++i) {
        const uint16_t j = (uint16_t)(i + random_below(&world->random, 8 * distance - i));
        const uint16_t drawn = entry_at(j, positions, entries, i);
        entries[i] = entry_at((uint16_t)i, positions, entries, i);
        positions[i] = j;
        world->targets[i] = edge_cell(drawn, distance);
    }
}

static void begin(World *world, int distance, int targets) {
    draw_targets(world, (uint32_t)distance, targets);
    world->agent = (Cell){(uint8_t)distance, (uint8_t)distance};
    world->at = (uint16_t)(2 * distance * (distance + 1));
    world->open = (uint16_t)targets;
    world->nearest = (uint8_t)distance;
    world->tick = 0;
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    const size_t size = state_size(options);
    for (size_t i = 0; i < num_worlds; ++i)
        begin(world_at(states, i, size), options[DISTANCE], options[TARGETS]);
}

static void put_targets(const World *world, int8_t *cells, size_t side, int targets,
                        int8_t target) {
    for (int i = 0; i < targets; ++i)
        cells[world->targets[i].row * side + world->targets[i].column] = target;
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    const size_t size = state_size(options), side = side_of(options);
    int8_t *cells = rows.observations;
    for (size_t i = 0; i < num_worlds * side * side; ++i) cells[i] = EMPTY;
    for (size_t i = 0; i < num_worlds; ++i, cells += side * side) {
        const World *world = world_at(states, i, size);
        put_targets(world, cells, side, options[TARGETS], TARGET);
        cells[world->at] = AGENT;
    }
}

// Take the target `i` from the open ones, if it is one; returns whether it was.
static bool hit(World *world, int i) {
    if (i >= world->open) return false;
    const Cell cell = world->targets[i];
    world->targets[i] = world->targets[--world->open];
    world->targets[world->open] = cell;
    return true;
}

// Put the agent on a cell, or back to the centre if that is a target, and return the reward times
// the distance: what was gained on the way to the targets. `row` and `column` are where it ends up.
static inline int arrive(World *world, int *row, int *column, int distance, int targets) {
    const int before = world->nearest, open = world->open;
    int nearest = distance, landed = -1;
    for (int i = 0; i < targets; ++i) {
        const int down = world->targets[i].row - *row, right = world->targets[i].column - *column;
        const int away = max(max(down, -down), max(right, -right));
        landed = away ? landed : i;
        nearest = i >= open ? nearest : i ? min(nearest, away) : away;
    }
    int gain = before - nearest;
    if (landed >= 0) {
        *row = *column = nearest = distance;  // every target is as far from the centre
        gain = before - distance + (hit(world, landed) ? distance : 0);
    }
    world->agent.row = (uint8_t)*row;
    world->agent.column = (uint8_t)*column;
    world->nearest = (uint8_t)nearest;
    return gain;
}

static Record finish(World *world, int distance, int targets) {
    const int hits = targets - world->open;
    const Record record = {
        .score = (float)hits / (float)targets,
        .episode_return = (float)(hits * distance + distance - world->nearest) / (float)distance,
        .episode_length = (int32_t)world->tick,
    };
    begin(world, distance, targets);
    return record;
}

static inline Record *step_worlds(int distance, int targets, size_t size, void *states,
                                  size_t num_worlds, Rows rows) {
    const int last = 2 * distance, side = last + 1;
    const uint32_t limit = (uint32_t)(targets * distance);
    // Bytes may be anything for a compiler: without `restrict` it reads the world anew after each.
    const int64_t *restrict actions = rows.actions;
    float *restrict rewards = rows.rewards;
    int8_t *restrict cells = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, cells += side * side) {
        World *restrict world = world_at(states, i, size);
        const int64_t action = actions[i];
        int row = min(max(world->agent.row + DOWN[action], 0), last);
        int column = min(max(world->agent.column + RIGHT[action], 0), last);
        rewards[i] = (float)arrive(world, &row, &column, distance, targets) / (float)distance;
        cells[world->at] = EMPTY;
        world->at = (uint16_t)(row * side + column);
        if (++world->tick == limit) {
            rows.terminals[i] = true;
            put_targets(world, cells, (size_t)side, targets, EMPTY);
            *rows.records++ = finish(world, distance, targets);
            put_targets(world, cells, (size_t)side, targets, TARGET);
        }
        cells[world->at] = AGENT;
    }
    return rows.records;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    const size_t size = state_size(options);
    // With one target the compiler drops the loops over targets.
    if (options[TARGETS] == 1)
        return step_worlds(options[DISTANCE], 1, size, states, num_worlds, rows);
    return step_worlds(options[DISTANCE], options[TARGETS], size, states, num_worlds, rows);
}

static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    const World *world = state;
    const size_t side = side_of(options);
    for (size_t i = 0; i < side * side; ++i) set_pixel(rgb, i, 0x303030);
    for (int i = 0; i < options[TARGETS]; ++i)
        set_pixel(rgb, world->targets[i].row * side + world->targets[i].column, 0x00AFAF);
    set_pixel(rgb, world->agent.row * side + world->agent.column, 0xD70000);
}

const Game SQUARED = {
    .name = "squared",
    .num_options = 2,
    .num_actions = 8,
    .num_agents = num_agents,
    .observation_size = observation_size,
    .state_size = state_size,
    .reset = reset,
    .observe = observe,
    .step = step,
    .picture_rows = side_of,
    .picture_columns = side_of,
    .draw = draw,
};
