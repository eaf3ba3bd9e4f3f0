// Connect Four: the rules are in the docstring of native/connect_four.py.
#include "game.h"
#include "random.h"

enum { ROWS = 6, COLUMNS = 7, SEATS = 2 };
enum { OPPONENT, OPENING };  // the options
enum { ITSELF, RANDOM };     // opponents
enum { MAX_OPENING = 5 };    // with one move more nobody has four stones
enum { EMPTY = 0, MINE = 1, THEIRS = -1 };

// Boards are of bits. A column has seven, from its lowest cell up; the seventh stays 0, so that no
// line of four bits runs from one column into the next.
enum { STRIDE = ROWS + 1 };
static const uint64_t FULL = 0x3F * 0x40810204081u;  // six bits in each of the seven columns

typedef struct {
    uint64_t random;
    uint64_t stones[SEATS];
    uint8_t heights[COLUMNS];
    uint8_t seat;  // whose turn it is
    uint8_t tick;
} World;

// An agent's observation, as the Python side describes it.
typedef struct {
    int8_t allowed[COLUMNS];
    int8_t board[ROWS * COLUMNS];  // the top row first
    int8_t on_turn;
} View;

typedef enum { ONGOING, WON, LOST, DRAWN } Outcome;  // for whom has just moved

// Against the random opponent, who has seat 1, a world has one agent.
static size_t num_agents(const int32_t *options) {
    return options[OPPONENT] == ITSELF ? SEATS : 1;
}

static size_t observation_size(const int32_t *options) {
    (void)options;
    return sizeof(View);
}

static size_t state_size(const int32_t *options) {
    if (options[OPPONENT] != ITSELF && options[OPPONENT] != RANDOM) return 0;
    return 0 <= options[OPENING] && options[OPENING] <= MAX_OPENING ? sizeof(World) : 0;
}

// Whether four of the stones lie in a line: up, across, or along a diagonal.
static bool has_line(uint64_t stones) {
    static const int STEPS[] = {1, STRIDE, STRIDE - 1, STRIDE + 1};
    uint64_t lines = 0;
    for (int i = 0; i < 4; ++i) {
        const uint64_t pairs = stones & (stones >> STEPS[i]);
        lines |= pairs & (pairs >> 2 * STEPS[i]);
    }
    return lines != 0;
}

static Outcome drop(World *world, int column) {
    if (world->heights[column] == ROWS) return LOST;
    uint64_t *stones = &world->stones[world->seat];
    *stones |= (uint64_t)1 << (column * STRIDE + world->heights[column]++);
    if (has_line(*stones)) return WON;
    if ((world->stones[0] | world->stones[1]) == FULL) return DRAWN;
    world->seat ^= 1;
    return ONGOING;
}

static bool is_opponents_turn(const World *world, size_t agents) {
    return agents == 1 && world->seat == 1;
}

static int random_column(World *world) {
    int open[COLUMNS + 1], count = 0;
    for (int column = 0; column < COLUMNS; ++column) {
        open[count] = column;
        count += world->heights[column] < ROWS;
    }
    return open[random_below(&world->random, (uint32_t)count)];
}

static void begin(World *world, const int32_t *options) {
    const uint32_t longest = (uint32_t)options[OPENING];
    world->stones[0] = world->stones[1] = 0;
    for (int column = 0; column < COLUMNS; ++column) world->heights[column] = 0;
    world->tick = 0;
    world->seat = (uint8_t)random_below(&world->random, SEATS);
    for (uint32_t i = longest ? random_below(&world->random, longest + 1) : 0; i > 0; --i)
        drop(world, random_column(world));
    if (is_opponents_turn(world, num_agents(options))) drop(world, random_column(world));
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    World *worlds = states;
    for (size_t i = 0; i < num_worlds; ++i) begin(&worlds[i], options);
}

// Whoever waits has one choice, which does nothing: there is nothing to learn about it.
static void show_turn(const World *world, View *views, size_t agents) {
    for (size_t seat = 0; seat < agents; ++seat) {
        const bool on_turn = world->seat == seat;
        views[seat].on_turn = on_turn;
        for (int column = 0; column < COLUMNS; ++column)
            views[seat].allowed[column] = on_turn ? world->heights[column] < ROWS : column == 0;
    }
}

static void show_stone(View *views, size_t agents, size_t owner, int height, int column) {
    const int cell = (ROWS - 1 - height) * COLUMNS + column;
    for (size_t seat = 0; seat < agents; ++seat)
        views[seat].board[cell] = seat == owner ? MINE : THEIRS;
}

static void show(const World *world, View *views, size_t agents) {
    for (size_t seat = 0; seat < agents; ++seat)
        for (int cell = 0; cell < ROWS * COLUMNS; ++cell) views[seat].board[cell] = EMPTY;
    for (int column = 0; column < COLUMNS; ++column)
        for (int height = 0; height < world->heights[column]; ++height) {
            const size_t owner = world->stones[1] >> (column * STRIDE + height) & 1;
            show_stone(views, agents, owner, height, column);
        }
    show_turn(world, views, agents);
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    const World *worlds = states;
    const size_t agents = num_agents(options);
    View *views = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i) show(&worlds[i], views + i * agents, agents);
}

static Outcome move(World *world, View *views, size_t agents, int column) {
    const size_t mover = world->seat;
    const int height = world->heights[column];
    const Outcome outcome = drop(world, column);
    // The board of a game that has ended is never seen.
    if (outcome == ONGOING) show_stone(views, agents, mover, height, column);
    return outcome;
}

static Record *finish(World *world, const int32_t *options, Outcome outcome, Rows rows) {
    const size_t agents = num_agents(options);
    for (size_t seat = 0; seat < agents; ++seat) {
        const bool won = (outcome == WON) == (world->seat == seat);
        const float reward = outcome == DRAWN ? 0.0f : won ? 1.0f : -1.0f;
        rows.rewards[seat] = reward;
        rows.terminals[seat] = true;
        *rows.records++ = (Record){
            .score = (reward + 1) / 2,
            .episode_return = reward,
            .episode_length = world->tick,
        };
    }
    begin(world, options);
    show(world, rows.observations, agents);
    return rows.records;
}

// Play a step of a world whose first row is the first of `rows`.
static inline Record *step_world(World *world, const int32_t *options, size_t agents, Rows rows) {
    View *views = rows.observations;
    ++world->tick;
    Outcome outcome = move(world, views, agents, (int)rows.actions[world->seat]);
    if (outcome == ONGOING && is_opponents_turn(world, agents))
        outcome = move(world, views, agents, random_column(world));
    if (outcome != ONGOING) return finish(world, options, outcome, rows);
    for (size_t seat = 0; seat < agents; ++seat) rows.rewards[seat] = 0;
    show_turn(world, views, agents);
    return rows.records;
}

static inline Record *step_worlds(const int32_t *options, size_t agents, World *worlds,
                                  size_t num_worlds, Rows rows) {
    for (size_t i = 0; i < num_worlds; ++i) {
        rows.records = step_world(&worlds[i], options, agents, rows);
        rows.observations = (View *)rows.observations + agents;
        rows.actions += agents;
        rows.rewards += agents;
        rows.terminals += agents;
    }
    return rows.records;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    // The compiler unrolls the loops over a number of agents that it knows.
    if (options[OPPONENT] == ITSELF)
        return step_worlds(options, SEATS, states, num_worlds, rows);
    return step_worlds(options, 1, states, num_worlds, rows);
}

// A frame of one pixel around every cell.
static size_t picture_rows(const int32_t *options) {
    (void)options;
    return 2 * ROWS + 1;
}

static size_t picture_columns(const int32_t *options) {
    (void)options;
    return 2 * COLUMNS + 1;
}

// The colour of the cell of bit `bit`.
static uint32_t color_of(const World *world, int bit) {
    if (world->stones[0] >> bit & 1) return 0xFAD232;
    return world->stones[1] >> bit & 1 ? 0xDC3232 : 0x081028;
}

static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    const World *world = state;
    for (size_t i = 0; i < picture_rows(options) * picture_columns(options); ++i)
        set_pixel(rgb, i, 0x1840A0);
    for (int row = 0; row < ROWS; ++row)
        for (int column = 0; column < COLUMNS; ++column) {
            const int bit = column * STRIDE + ROWS - 1 - row;
            const size_t pixel = (2 * row + 1) * picture_columns(options) + 2 * column + 1;
            set_pixel(rgb, pixel, color_of(world, bit));
        }
}

const Game CONNECT_FOUR = {
    .name = "connect_four",
    .num_options = 2,
    .num_actions = COLUMNS,
    .num_agents = num_agents,
    .observation_size = observation_size,
    .state_size = state_size,
    .reset = reset,
    .observe = observe,
    .step = step,
    .picture_rows = picture_rows,
    .picture_columns = picture_columns,
    .draw = draw,
};
