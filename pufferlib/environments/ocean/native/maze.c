// Maze: the rules are in the docstring of native/maze.py.
#include "game.h"
#include "random.h"

enum { WALL = -1, EXPLORED = 0, TRAIL = 1, NEW = 2, GOAL = 3 };  // the squares of the map
enum { SIZE, VIEW, LEVELS, FIRST_LEVEL };                        // the options
enum { MIN_SIZE = 2, MAX_SIZE = 31, COMMON_VIEW = 3 };
enum { LEFT, RIGHT, UP, DOWN, DIRECTIONS };

// The map has so much wall around it that an agent at its edge sees nothing else beyond it.
typedef struct {
    uint64_t random;
    uint16_t tick;
    uint16_t shortest;  // moves from the start of the level to its goal
    uint16_t at;        // the agent's square: an index of `squares`
    int8_t squares[];
} World;

static size_t num_agents(const int32_t *options) {
    (void)options;
    return 1;
}

static size_t side_of_view(const int32_t *options) { return 2 * (size_t)options[VIEW] + 1; }

static size_t side_of_map(const int32_t *options) {
    return 2 * (size_t)(options[SIZE] + options[VIEW]) - 1;
}

static size_t observation_size(const int32_t *options) {
    return side_of_view(options) * side_of_view(options);
}

static size_t state_size(const int32_t *options) {
    const int32_t size = options[SIZE], view = options[VIEW];
    if (size < MIN_SIZE || size > MAX_SIZE || view < 1 || view >= 2 * size) return 0;
    if (options[LEVELS] < 0 || options[FIRST_LEVEL] < 0) return 0;
    const size_t side = side_of_map(options);
    return (offsetof(World, squares) + side * side + 7) / 8 * 8;
}

static World *world_at(const void *states, size_t i, size_t size) {
    return (World *)((char *)states + i * size);
}

// A cell of the maze, in the grid of cells, which has a border, and on the map.
typedef struct {
    uint16_t cell, square;
} Place;

static Place place_of(uint32_t cell, const int32_t *options) {
    const uint32_t size = (uint32_t)options[SIZE], view = (uint32_t)options[VIEW];
    const uint32_t row = cell / size, column = cell % size;
    const uint32_t square = (view + 2 * row) * (uint32_t)side_of_map(options) + view + 2 * column;
    return (Place){(uint16_t)((row + 1) * (size + 2) + column + 1), (uint16_t)square};
}

// Walls everywhere. The border counts as open, so that nobody carves there.
static void build_walls(World *world, const int32_t *options, bool *is_open) {
    const size_t size = (size_t)options[SIZE], side = side_of_map(options);
    for (size_t i = 0; i < side * side; ++i) world->squares[i] = WALL;
    for (size_t i = 0; i < (size + 2) * (size + 2); ++i) is_open[i] = true;
    for (size_t row = 1; row <= size; ++row)
        for (size_t column = 1; column <= size; ++column)
            is_open[row * (size + 2) + column] = false;
}

// The directions in which a cell has a closed neighbour; returns how many.
static uint32_t closed_neighbours(const bool *is_open, const int *steps, int *directions) {
    uint32_t count = 0;
    for (int i = 0; i < DIRECTIONS; ++i) {
        directions[count] = i;
        count += !is_open[steps[i]];
    }
    return count;
}

// Depth first from the goal: open a random closed neighbour of the last cell on the way that has
// any. When the start is reached, the way back has its distance, and there is no other way.
static void carve(World *world, const int32_t *options, uint64_t *random, Place goal, Place start) {
    const int size = options[SIZE], side = (int)side_of_map(options);
    const int cell_steps[DIRECTIONS] = {-1, 1, -(size + 2), size + 2};
    const int square_steps[DIRECTIONS] = {-1, 1, -side, side};
    Place way[MAX_SIZE * MAX_SIZE];
    bool is_open[(MAX_SIZE + 2) * (MAX_SIZE + 2)];
    build_walls(world, options, is_open);
    int length = 0, directions[DIRECTIONS + 1];
    way[0] = goal;
    is_open[goal.cell] = true;
    for (int closed = size * size - 1; closed > 0;) {
        const Place here = way[length];
        const uint32_t count = closed_neighbours(is_open + here.cell, cell_steps, directions);
        if (count == 0) {
            --length;
            continue;
        }
        const int direction = directions[random_below(random, count)];
        const Place next = {(uint16_t)(here.cell + cell_steps[direction]),
                            (uint16_t)(here.square + 2 * square_steps[direction])};
        is_open[next.cell] = true;
        world->squares[here.square + square_steps[direction]] = NEW;
        world->squares[next.square] = NEW;
        way[++length] = next;
        --closed;
        if (next.cell == start.cell) world->shortest = (uint16_t)(2 * length);
    }
}

static void begin(World *world, const int32_t *options) {
    const uint32_t cells = (uint32_t)(options[SIZE] * options[SIZE]);
    const uint32_t levels = (uint32_t)options[LEVELS], first = (uint32_t)options[FIRST_LEVEL];
    // Everything about a level is drawn from a stream of its own, whose seed is the level's number.
    uint64_t level = levels ? (uint64_t)first + random_below(&world->random, levels)
                            : random_next(&world->random);
    const uint32_t goal = random_below(&level, cells), other = random_below(&level, cells - 1);
    const Place from = place_of(goal, options), start = place_of(other + (other >= goal), options);
    carve(world, options, &level, from, start);
    world->squares[from.square] = GOAL;
    world->squares[start.square] = TRAIL;
    world->at = start.square;
    world->tick = 0;
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    const size_t size = state_size(options);
    for (size_t i = 0; i < num_worlds; ++i) begin(world_at(states, i, size), options);
}

// Copy what is around the agent.
static inline void look(const World *world, size_t view, size_t side, int8_t *seen) {
    const int8_t *squares = world->squares + world->at - view * (side + 1);
    for (size_t row = 0; row <= 2 * view; ++row, squares += side, seen += 2 * view + 1)
        __builtin_memcpy(seen, squares, 2 * view + 1);
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    const size_t size = state_size(options), side = side_of_map(options);
    int8_t *seen = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, seen += observation_size(options))
        look(world_at(states, i, size), (size_t)options[VIEW], side, seen);
}

// Move, unless there is a wall; returns what the square was. Steps back roll the trail up.
static inline int8_t move(World *world, int to) {
    const int8_t found = world->squares[to];
    if (found == WALL) return WALL;
    world->squares[world->at] = found == TRAIL ? EXPLORED : TRAIL;
    world->squares[to] = TRAIL;
    world->at = (uint16_t)to;
    return found;
}

static Record finish(World *world, const int32_t *options, bool at_goal) {
    const Record record = {
        .score = at_goal ? (float)world->shortest / (float)world->tick : 0,
        .episode_return = at_goal,
        .episode_length = world->tick,
    };
    begin(world, options);
    return record;
}

static inline Record *step_worlds(const int32_t *options, size_t view, void *states,
                                  size_t num_worlds, Rows rows) {
    const size_t size = state_size(options), side = side_of_map(options);
    const size_t seen = (2 * view + 1) * (2 * view + 1);
    const uint32_t limit = 4 * (uint32_t)(options[SIZE] * options[SIZE]);
    const int steps[DIRECTIONS] = {-1, 1, -(int)side, (int)side};
    for (size_t i = 0; i < num_worlds; ++i) {
        World *world = world_at(states, i, size);
        const bool at_goal = move(world, world->at + steps[rows.actions[i]]) == GOAL;
        rows.rewards[i] = at_goal;
        if (++world->tick == limit || at_goal) {
            rows.terminals[i] = at_goal;
            rows.truncations[i] = !at_goal;
            look(world, view, side, (int8_t *)rows.final_observations + i * seen);
            *rows.records++ = finish(world, options, at_goal);
        }
        look(world, view, side, (int8_t *)rows.observations + i * seen);
    }
    return rows.records;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    // With a view that it knows the compiler copies without loops.
    if (options[VIEW] == COMMON_VIEW)
        return step_worlds(options, COMMON_VIEW, states, num_worlds, rows);
    return step_worlds(options, (size_t)options[VIEW], states, num_worlds, rows);
}

static size_t picture_side(const int32_t *options) { return 2 * (size_t)options[SIZE] + 1; }

static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    static const uint32_t COLORS[] = {0x282C3C, 0x969696, 0x6EAAE6, 0xEBEBE1, 0x3CBE5A};
    const World *world = state;
    const size_t size = picture_side(options), side = side_of_map(options);
    const size_t corner = ((size_t)options[VIEW] - 1) * (side + 1);
    for (size_t i = 0; i < size * size; ++i) {
        const size_t square = corner + i / size * side + i % size;
        const uint32_t color = COLORS[world->squares[square] - WALL];
        set_pixel(rgb, i, square == world->at ? 0xFAD232 : color);
    }
}

const Game MAZE = {
    .name = "maze",
    .num_options = 4,
    .num_actions = DIRECTIONS,
    .num_agents = num_agents,
    .observation_size = observation_size,
    .state_size = state_size,
    .reset = reset,
    .observe = observe,
    .step = step,
    .picture_rows = picture_side,
    .picture_columns = picture_side,
    .draw = draw,
};
