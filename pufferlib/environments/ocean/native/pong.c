// Pong for two: the rules are in the docstring of pong.py.
#include "game.h"
#include "random.h"

enum { POINTS, MAX_STEPS };  // the options
enum { MAX_POINTS = 100 };

// Units are pixels of the picture. The field's middle is 0 in both directions, so that a mirrored
// game is the same game with other signs, to the last bit.
enum { HALF_WIDTH = 32, HALF_HEIGHT = 24, HALF_PADDLE = 4, PADDLE_REACH = HALF_HEIGHT - HALF_PADDLE };
// Per step. The fastest ball crosses the field in 12.8 steps, in which a paddle in the middle comes
// 19.2 of the 20 units up or down: a fast rally can be won.
#define PADDLE_SPEED 1.5f
#define SERVE_SPEED 2.0f
#define SPEED_UP 0.25f
#define MAX_SPEED 5.0f

enum { LEFT, RIGHT, NOBODY };
enum { OBSERVED = 8 };  // floats of an agent's view

static const float MOVES[] = {0, -PADDLE_SPEED, PADDLE_SPEED};  // stay, up, down

typedef struct {
    uint64_t random;
    float paddles[2];    // the heights of their middles
    float x, y, vx, vy;  // the ball
    int32_t points[2];
    uint32_t tick, unused;
} World;

static size_t num_agents(const int32_t *options) {
    (void)options;
    return 2;
}

static size_t observation_size(const int32_t *options) {
    (void)options;
    return OBSERVED * sizeof(float);
}

static size_t state_size(const int32_t *options) {
    const int32_t points = options[POINTS];
    return points < 1 || points > MAX_POINTS || options[MAX_STEPS] < 1 ? 0 : sizeof(World);
}

static inline float magnitude(float value) { return value < 0 ? -value : value; }
static inline float at_most(float value, float most) { return value < most ? value : most; }
static inline float within(float value, float bound) {
    return value < -bound ? -bound : at_most(value, bound);
}

// Up to 45 degrees up or down, from the middle half of the height.
static void serve(World *world, float direction) {
    world->x = 0;
    world->y = HALF_HEIGHT / 2 * random_signed(&world->random);
    world->vx = direction * SERVE_SPEED;
    world->vy = SERVE_SPEED * random_signed(&world->random);
}

static void begin(World *world) {
    world->paddles[LEFT] = world->paddles[RIGHT] = 0;
    world->points[LEFT] = world->points[RIGHT] = 0;
    world->tick = 0;
    serve(world, random_below(&world->random, 2) ? 1 : -1);
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    (void)options;
    for (size_t i = 0; i < num_worlds; ++i) begin((World *)states + i);
}

// What an agent sees: its own paddle first, and the ball as if the agent were the left one.
static inline void view(const World *world, int agent, float point, float *seen) {
    const float mirror = agent == LEFT ? 1 : -1;
    seen[0] = world->paddles[agent] / HALF_HEIGHT;
    seen[1] = world->paddles[1 - agent] / HALF_HEIGHT;
    seen[2] = mirror * world->x / HALF_WIDTH;
    seen[3] = world->y / HALF_HEIGHT;
    seen[4] = mirror * world->vx / MAX_SPEED;
    seen[5] = world->vy / MAX_SPEED;
    seen[6] = (float)world->points[agent] * point;
    seen[7] = (float)world->points[1 - agent] * point;
}

static inline void view_both(const World *world, float point, float *seen) {
    view(world, LEFT, point, seen);
    view(world, RIGHT, point, seen + OBSERVED);
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    const float point = 1 / (float)options[POINTS];
    float *seen = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, seen += 2 * OBSERVED)
        view_both((const World *)states + i, point, seen);
}

static inline void move(World *world, int agent, int64_t action) {
    world->paddles[agent] = within(world->paddles[agent] + MOVES[action], PADDLE_REACH);
}

// Fly up or down for a part of the step, and off the walls. It is shorter than the field is high.
static inline void rise(World *world, float time) {
    const float y = world->y + world->vy * time, wall = y < 0 ? -HALF_HEIGHT : HALF_HEIGHT;
    const bool bounces = magnitude(y) > HALF_HEIGHT;
    world->y = bounces ? 2 * wall - y : y;
    world->vy = bounces ? -world->vy : world->vy;
}

// The ball reaches the line of `agent` in this step: it comes back, or the other one has a point.
static int meet(World *world, int agent) {
    const float side = agent == LEFT ? -1 : 1;
    const float time = (HALF_WIDTH - side * world->x) / magnitude(world->vx);
    rise(world, time);
    const float offset = (world->y - world->paddles[agent]) / HALF_PADDLE;
    if (magnitude(offset) > 1) {
        serve(world, -side);
        return 1 - agent;
    }
    const float speed = at_most(magnitude(world->vx) + SPEED_UP, MAX_SPEED);
    world->vx = -side * speed;
    world->vy = offset * speed;
    world->x = side * HALF_WIDTH + world->vx * (1 - time);
    rise(world, 1 - time);
    return NOBODY;
}

// A step of the ball; returns who won a point.
static inline int fly(World *world) {
    const float x = world->x + world->vx;
    if (magnitude(x) >= HALF_WIDTH) return meet(world, x < 0 ? LEFT : RIGHT);
    world->x = x;
    rise(world, 1);
    return NOBODY;
}

static Record *record(const World *world, bool truncated, Record *records) {
    const int lead = world->points[LEFT] - world->points[RIGHT];
    for (int agent = LEFT; agent <= RIGHT; ++agent) {
        const int mine = agent == LEFT ? lead : -lead;
        *records++ = (Record){
            .score = truncated ? 0.5f : mine > 0 ? 1 : 0,
            .episode_return = (float)mine,
            .episode_length = (int32_t)world->tick,
        };
    }
    return records;
}

static Record *finish(World *world, bool truncated, size_t row, float point, Rows rows) {
    bool *flags = truncated ? rows.truncations : rows.terminals;
    flags[row] = flags[row + 1] = true;
    if (truncated) view_both(world, point, (float *)rows.final_observations + row * OBSERVED);
    rows.records = record(world, truncated, rows.records);
    begin(world);
    return rows.records;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    const int32_t points = options[POINTS];
    const uint32_t limit = (uint32_t)options[MAX_STEPS];
    const float point = 1 / (float)points;
    float *seen = rows.observations;
    for (size_t row = 0; row < 2 * num_worlds; row += 2, seen += 2 * OBSERVED) {
        World *world = (World *)states + row / 2;
        move(world, LEFT, rows.actions[row]);
        move(world, RIGHT, rows.actions[row + 1]);
        const int winner = fly(world);
        bool won = false;
        rows.rewards[row] = rows.rewards[row + 1] = 0;
        if (winner != NOBODY) {
            rows.rewards[row + (size_t)winner] = 1;
            rows.rewards[row + 1 - (size_t)winner] = -1;
            won = ++world->points[winner] == points;
        }
        if (++world->tick == limit || won) rows.records = finish(world, !won, row, point, rows);
        view_both(world, point, seen);
    }
    return rows.records;
}

enum { PICTURE_ROWS = 2 * HALF_HEIGHT, PICTURE_COLUMNS = 2 * HALF_WIDTH };

static size_t picture_rows(const int32_t *options) {
    (void)options;
    return PICTURE_ROWS;
}

static size_t picture_columns(const int32_t *options) {
    (void)options;
    return PICTURE_COLUMNS;
}

enum { BLACK = 0, DARK = 0x505050, GREY = 0xA0A0A0, WHITE = 0xFFFFFF };

static void paint(uint8_t *rgb, int row, int column, uint32_t color) {
    set_pixel(rgb, (size_t)(row * PICTURE_COLUMNS + column), color);
}

// The pixel of a coordinate; a ball on the lower or the right edge is in the last one.
static int pixel_of(float at, int half) {
    const int pixel = (int)(at + (float)half);
    return pixel < 2 * half ? pixel : 2 * half - 1;
}

// Paddles and ball in white, the net in grey, and a dot for each point along the upper edge.
static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    (void)options;
    const World *world = state;
    for (int i = 0; i < PICTURE_ROWS * PICTURE_COLUMNS; ++i) paint(rgb, 0, i, BLACK);
    for (int row = 1; row < PICTURE_ROWS; row += 4) paint(rgb, row, HALF_WIDTH, DARK);
    for (int agent = LEFT; agent <= RIGHT; ++agent) {
        const int edge = agent == LEFT ? 0 : PICTURE_COLUMNS - 1, inwards = agent == LEFT ? 1 : -1;
        const int top = pixel_of(world->paddles[agent] - HALF_PADDLE, HALF_HEIGHT);
        for (int row = top; row < top + 2 * HALF_PADDLE; ++row) paint(rgb, row, edge, WHITE);
        for (int dot = 1; dot <= world->points[agent] && 2 * dot < HALF_WIDTH; ++dot)
            paint(rgb, 0, edge + inwards * 2 * dot, GREY);
    }
    paint(rgb, pixel_of(world->y, HALF_HEIGHT), pixel_of(world->x, HALF_WIDTH), WHITE);
}

const Game PONG = {
    .name = "pong",
    .num_options = 2,
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
