// Snake: the rules are in the docstring of snake.py.
//
// A world is a map of cells with a border of walls as wide as the snakes see, so that no window
// leaves it. Each snake's body is a ring of cells; the map says what is where, and not whose.
#include "game.h"
#include "random.h"

enum { ROWS, COLUMNS, SNAKES, FOODS, VISION, MAX_LENGTH, MAX_STEPS, NUM_OPTIONS };
enum { MAX_CELLS = 1 << 16, MAX_MAX_LENGTH = 1 << 14, START = 2 };  // length of a newborn
// What the map shows and the snakes see; below 0 is what kills. CLAIMED is gone after each step.
enum { FOOD = 1, EMPTY = 0, BODY = -1, WALL = -1, HEAD = -2, CLAIMED = -3 };
enum { UP, RIGHT, DOWN, LEFT, NUM_HEADINGS };
enum { LIVES, DEAD, GROWN, OLD };  // the last three end an episode

typedef struct {
    uint32_t age;
    uint16_t newest;  // where in its ring the head is
    uint16_t length;
    uint16_t eaten;
    uint16_t target;  // the cell that it moves to
    uint8_t heading;
    uint8_t fate;
    bool eats;  // there is food on `target`
} Snake;

typedef struct {
    uint64_t random;
    uint32_t food;  // cells with food
    uint32_t padding;
    Snake snakes[];  // then the rings, then the cells
} World;

// What follows from the options.
typedef struct {
    int32_t rows, columns, vision;
    uint32_t food, max_length, max_steps;
    size_t snakes, width, cells, ring, rings_at, cells_at, size;
    int32_t ahead[NUM_HEADINGS];  // the way from a cell to its neighbour
} Plan;

// A world, taken apart.
typedef struct {
    const Plan *plan;
    World *world;
    uint16_t *rings;
    int8_t *cells;
} Map;

static size_t num_agents(const int32_t *options) { return (size_t)options[SNAKES]; }

static size_t side_of(const int32_t *options) { return 2 * (size_t)options[VISION] + 1; }

static size_t observation_size(const int32_t *options) {
    return side_of(options) * side_of(options);
}

static size_t picture_rows(const int32_t *options) { return (size_t)options[ROWS]; }
static size_t picture_columns(const int32_t *options) { return (size_t)options[COLUMNS]; }

// At most food + snakes * max_length cells are taken at any time, each of which spoils three places
// of a newborn that looks up or down: there is always room for one.
static bool is_possible(const int32_t *options) {
    for (int i = 0; i < NUM_OPTIONS; ++i)
        if (options[i] < 1 || options[i] > (i == MAX_STEPS ? INT32_MAX : MAX_CELLS)) return false;
    const int64_t border = 2 * options[VISION];
    const int64_t taken = options[FOODS] + (int64_t)options[SNAKES] * options[MAX_LENGTH];
    return (options[ROWS] + border) * (options[COLUMNS] + border) <= MAX_CELLS &&
           options[MAX_LENGTH] > START && options[MAX_LENGTH] <= MAX_MAX_LENGTH &&
           (int64_t)(options[ROWS] - 2) * options[COLUMNS] > 3 * taken;
}

static Plan plan_of(const int32_t *options) {
    Plan plan = {
        .rows = options[ROWS],
        .columns = options[COLUMNS],
        .vision = options[VISION],
        .food = (uint32_t)options[FOODS],
        .max_length = (uint32_t)options[MAX_LENGTH],
        .max_steps = (uint32_t)options[MAX_STEPS],
        .snakes = (size_t)options[SNAKES],
        .width = (size_t)(options[COLUMNS] + 2 * options[VISION]),
        .ring = 1,
    };
    while (plan.ring < plan.max_length) plan.ring *= 2;
    plan.cells = (size_t)(options[ROWS] + 2 * options[VISION]) * plan.width;
    plan.rings_at = offsetof(World, snakes) + plan.snakes * sizeof(Snake);
    plan.cells_at = plan.rings_at + plan.snakes * plan.ring * sizeof(uint16_t);
    plan.size = (plan.cells_at + plan.cells + 7) / 8 * 8;
    plan.ahead[DOWN] = (int32_t)plan.width;
    plan.ahead[UP] = -plan.ahead[DOWN];
    plan.ahead[RIGHT] = 1;
    plan.ahead[LEFT] = -1;
    return plan;
}

static size_t state_size(const int32_t *options) {
    return is_possible(options) ? plan_of(options).size : 0;
}

static Map map_at(const Plan *plan, const void *states, size_t i) {
    char *state = (char *)states + i * plan->size;
    return (Map){plan, (World *)state, (uint16_t *)(state + plan->rings_at),
                 (int8_t *)(state + plan->cells_at)};
}

static size_t cell_at(const Plan *plan, size_t row, size_t column) {
    return (row + (size_t)plan->vision) * plan->width + column + (size_t)plan->vision;
}

// The cell of snake `i` that is `back` cells behind its head.
static uint16_t *segment(Map map, size_t i, size_t back) {
    const size_t mask = map.plan->ring - 1;
    return &map.rings[i * map.plan->ring + ((map.world->snakes[i].newest - back) & mask)];
}

static uint16_t head_of(Map map, size_t i) { return *segment(map, i, 0); }

static void push_head(Map map, size_t i, uint16_t cell) {
    Snake *snake = &map.world->snakes[i];
    snake->newest = (uint16_t)((snake->newest + 1u) & (map.plan->ring - 1));
    ++snake->length;
    *segment(map, i, 0) = cell;
}

// One number for both: the rows' half and the columns'.
static uint16_t random_cell(Map map) {
    const uint64_t z = random_next(&map.world->random);
    const uint64_t row = ((z >> 32) * (uint64_t)map.plan->rows) >> 32;
    const uint64_t column = ((z & UINT32_MAX) * (uint64_t)map.plan->columns) >> 32;
    return (uint16_t)cell_at(map.plan, row, column);
}

// More than two thirds of the cells are empty at any time, so this takes few tries.
static void grow_food(Map map) {
    while (map.world->food < map.plan->food) {
        const uint16_t cell = random_cell(map);
        if (map.cells[cell] != EMPTY) continue;
        map.cells[cell] = FOOD;
        ++map.world->food;
    }
}

// A snake of two cells, with an empty one ahead.
static void give_birth(Map map, size_t i) {
    uint16_t head;
    uint32_t heading;
    int32_t ahead;
    do {
        head = random_cell(map);
        heading = random_below(&map.world->random, NUM_HEADINGS);
        ahead = map.plan->ahead[heading];
    } while (map.cells[head] | map.cells[head - ahead] | map.cells[head + ahead]);
    map.world->snakes[i] = (Snake){.heading = (uint8_t)heading};
    push_head(map, i, (uint16_t)(head - ahead));
    push_head(map, i, head);
    map.cells[head - ahead] = BODY;
    map.cells[head] = HEAD;
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    const Plan plan = plan_of(options);
    for (size_t i = 0; i < num_worlds; ++i) {
        const Map map = map_at(&plan, states, i);
        for (size_t cell = 0; cell < plan.size - plan.cells_at; ++cell) map.cells[cell] = WALL;
        for (size_t row = 0; row < (size_t)plan.rows; ++row)
            for (size_t column = 0; column < (size_t)plan.columns; ++column)
                map.cells[cell_at(&plan, row, column)] = EMPTY;
        for (size_t k = 0; k < plan.snakes * plan.ring; ++k) map.rings[k] = 0;
        map.world->padding = map.world->food = 0;
        for (size_t k = 0; k < plan.snakes; ++k) give_birth(map, k);
        grow_food(map);
    }
}

// A window that begins at `from`, with steps of `down` and `right` on the map.
static inline void copy_window(const int8_t *from, int32_t down, int32_t right, int32_t side,
                               int8_t *window) {
    for (int32_t row = 0; row < side; ++row, from += down)
        for (int32_t column = 0; column < side; ++column) *window++ = from[column * right];
}

// The surroundings of a head, turned so that the snake looks up.
static inline void look(Map map, size_t i, int32_t vision, int8_t *window) {
    const int32_t width = map.plan->ahead[DOWN], side = 2 * vision + 1;
    const int32_t corner = vision * (width + 1), other = vision * (width - 1);
    const int8_t *head = map.cells + head_of(map, i);
    switch (map.world->snakes[i].heading) {
        case UP: return copy_window(head - corner, width, 1, side, window);
        case RIGHT: return copy_window(head - other, -1, width, side, window);
        case DOWN: return copy_window(head + corner, -width, -1, side, window);
        default: return copy_window(head + other, 1, -width, side, window);
    }
}

static void look_around(Map map, size_t i, int8_t *windows) {
    const int32_t side = 2 * map.plan->vision + 1;
    int8_t *window = windows + i * (size_t)(side * side);
    if (side == 11) return look(map, i, 5, window);  // the loops are unrolled
    look(map, i, map.plan->vision, window);
}

static void observe_world(Map map, int8_t *windows) {
    for (size_t i = 0; i < map.plan->snakes; ++i) look_around(map, i, windows);
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    const Plan plan = plan_of(options);
    int8_t *windows = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, windows += plan.snakes * observation_size(options))
        observe_world(map_at(&plan, states, i), windows);
}

// Turn, look at the next cell, and pull in the tail unless there is food.
static void prepare(Map map, size_t i, int64_t action) {
    Snake *snake = &map.world->snakes[i];
    snake->heading = (uint8_t)(snake->heading + action + LEFT) % NUM_HEADINGS;
    snake->target = (uint16_t)(head_of(map, i) + map.plan->ahead[snake->heading]);
    snake->eats = map.cells[snake->target] == FOOD;
    snake->fate = ++snake->age >= map.plan->max_steps ? OLD : LIVES;
    if (!snake->eats) map.cells[*segment(map, i, --snake->length)] = EMPTY;
}

// Claim the next cell, or die: of what is there, or together with the snake that was first.
static void claim(Map map, size_t i) {
    Snake *snakes = map.world->snakes;
    const uint16_t target = snakes[i].target;
    const int8_t there = map.cells[target];
    if (there >= EMPTY) {
        map.cells[target] = CLAIMED;
        return;
    }
    snakes[i].fate = DEAD;
    if (there != CLAIMED) return;
    for (size_t other = 0; other < i; ++other)
        if (snakes[other].target == target) snakes[other].fate = DEAD;
}

// Go to the claimed cell, or give it back.
static void move(Map map, size_t i) {
    Snake *snake = &map.world->snakes[i];
    int8_t *target = &map.cells[snake->target];
    map.cells[head_of(map, i)] = BODY;
    if (snake->fate == DEAD) {
        if (*target == CLAIMED) *target = snake->eats ? FOOD : EMPTY;
        return;
    }
    *target = HEAD;
    push_head(map, i, snake->target);
    if (!snake->eats) return;
    ++snake->eaten;
    --map.world->food;
    if (snake->length == map.plan->max_length) snake->fate = GROWN;
}

// A body leaves as many cells of food as it has eaten, from the head on.
static void decay(Map map, size_t i) {
    const Snake *snake = &map.world->snakes[i];
    for (size_t back = 0; back < snake->length; ++back)
        map.cells[*segment(map, i, back)] = back < snake->eaten ? FOOD : EMPTY;
    map.world->food += snake->eaten;
}

static Record record_of(Map map, size_t i) {
    const Snake *snake = &map.world->snakes[i];
    return (Record){
        .score = (float)snake->eaten / (float)(map.plan->max_length - START),
        .episode_return = (float)snake->eaten - (float)(snake->fate == DEAD),
        .episode_length = (int32_t)snake->age,
    };
}

// The dead are gone before those who have lived long enough look around for the last time.
static Record *end_episodes(Map map, Rows rows) {
    const Snake *snakes = map.world->snakes;
    for (size_t i = 0; i < map.plan->snakes; ++i) {
        rows.terminals[i] = snakes[i].fate == DEAD || snakes[i].fate == GROWN;
        rows.truncations[i] = snakes[i].fate == OLD;
        if (snakes[i].fate != LIVES) *rows.records++ = record_of(map, i);
        if (snakes[i].fate == DEAD) decay(map, i);
    }
    for (size_t i = 0; i < map.plan->snakes; ++i)
        if (snakes[i].fate == OLD) look_around(map, i, rows.final_observations);
    for (size_t i = 0; i < map.plan->snakes; ++i)
        if (snakes[i].fate == OLD || snakes[i].fate == GROWN) decay(map, i);
    for (size_t i = 0; i < map.plan->snakes; ++i)
        if (snakes[i].fate != LIVES) give_birth(map, i);
    return rows.records;
}

static Record *step_world(Map map, Rows rows) {
    const Snake *snakes = map.world->snakes;
    int ended = 0;
    for (size_t i = 0; i < map.plan->snakes; ++i) prepare(map, i, rows.actions[i]);
    for (size_t i = 0; i < map.plan->snakes; ++i) claim(map, i);
    for (size_t i = 0; i < map.plan->snakes; ++i) {
        move(map, i);
        const bool died = snakes[i].fate == DEAD;
        rows.rewards[i] = died ? -1.0f : (float)snakes[i].eats;
        ended |= snakes[i].fate;
    }
    if (ended) rows.records = end_episodes(map, rows);
    grow_food(map);
    observe_world(map, rows.observations);
    return rows.records;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    const Plan plan = plan_of(options);
    const size_t bytes = plan.snakes * observation_size(options);
    for (size_t i = 0; i < num_worlds; ++i) {
        rows.records = step_world(map_at(&plan, states, i), rows);
        rows.observations = (int8_t *)rows.observations + bytes;
        rows.final_observations = (int8_t *)rows.final_observations + bytes;
        rows.actions += plan.snakes;
        rows.rewards += plan.snakes;
        rows.terminals += plan.snakes;
        rows.truncations += plan.snakes;
    }
    return rows.records;
}

static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    static const uint32_t BODIES[] = {0x3B8EEA, 0x23D18B, 0xD670D6, 0xE5E510,
                                      0x29B8DB, 0xE08040, 0x9070F0, 0xB0B0B0};
    const Plan plan = plan_of(options);
    const Map map = map_at(&plan, state, 0);
    for (size_t row = 0; row < (size_t)plan.rows; ++row)
        for (size_t column = 0; column < (size_t)plan.columns; ++column) {
            const bool food = map.cells[cell_at(&plan, row, column)] == FOOD;
            set_pixel(rgb, row * (size_t)plan.columns + column, food ? 0xCD3131 : 0x202020);
        }
    for (size_t i = 0; i < plan.snakes; ++i)
        for (size_t back = map.world->snakes[i].length; back-- > 0;) {
            const size_t cell = *segment(map, i, back) - cell_at(&plan, 0, 0);
            const size_t pixel = cell / plan.width * (size_t)plan.columns + cell % plan.width;
            set_pixel(rgb, pixel, back ? BODIES[i % 8] : 0xFFFFFF);
        }
}

const Game SNAKE = {
    .name = "snake",
    .num_options = NUM_OPTIONS,
    .num_actions = 3,
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
