// Breakout: the rules are in the docstring of breakout.py.
#include "game.h"
#include "random.h"

enum { FRAMESKIP, MAX_STEPS };  // the options
enum { MAX_FRAMESKIP = 64 };

// Units are pixels of the picture. It is a grid of cells of a brick's size, whose first and last
// column and first row are the wall around the field: coordinates in the field are positive, so
// that the cell of a point is an integer part.
enum { WIDTH = 4, HEIGHT = 2, COLUMNS = 18, ROWS = 6, FIRST_ROW = 6 };
enum { LEFT = WIDTH, RIGHT = LEFT + COLUMNS * WIDTH, MIDDLE = (LEFT + RIGHT) / 2 };
enum { TOP = HEIGHT, FREE = (FIRST_ROW + ROWS) * HEIGHT, SERVE = 36, PADDLE = 70 };
enum { HALF_WIDTH = RIGHT - MIDDLE, HALF_HEIGHT = (PADDLE - TOP) / 2, HALF_PADDLE = 5 };
enum { BALLS = 5, BRICKS = ROWS * COLUMNS };

// Per frame. The ball stays slower than a cell is high, so that it crosses at most one edge of a
// cell in each direction.
#define PADDLE_SPEED 1.5f
#define SERVE_SPEED 1.25f
#define SPEED_UP 0.0625f
#define MAX_SPEED 1.875f

// Of a brick in each row, from the top.
static const uint8_t POINTS[ROWS] = {7, 7, 4, 4, 1, 1};
enum { ALL_POINTS = COLUMNS * 2 * (7 + 4 + 1) };
#define REWARD_OF_A_POINT 0.1f

static const float MOVES[] = {0, -PADDLE_SPEED, PADDLE_SPEED};  // stay, left, right

enum { NUMBERS = 7, OBSERVED = NUMBERS + BRICKS };  // floats of an observation

typedef struct {
    uint64_t random;
    float paddle;               // its middle
    float x, y, vx, vy, speed;  // the ball
    uint32_t bricks[ROWS];      // bit c: a brick in column c, of 1 to COLUMNS
    uint32_t tick;              // steps played
    uint16_t points;
    uint8_t balls, left;  // balls, this one included; bricks
} World;

static size_t num_agents(const int32_t *options) {
    (void)options;
    return 1;
}

static size_t observation_size(const int32_t *options) {
    (void)options;
    return OBSERVED * sizeof(float);
}

static size_t state_size(const int32_t *options) {
    const int32_t frames = options[FRAMESKIP];
    return frames < 1 || frames > MAX_FRAMESKIP || options[MAX_STEPS] < 1 ? 0 : sizeof(World);
}

static inline float magnitude(float value) { return value < 0 ? -value : value; }
static inline float at_most(float value, float most) { return value < most ? value : most; }

// Send the ball off at an angle: `aim` of -1 to 1 is 53 degrees left to right of straight up or
// down. Half of it is the tangent of half the angle, so that no square root is needed.
static void aim_ball(World *world, float aim, float downwards) {
    const float half = aim / 2, square = half * half;
    world->vx = world->speed * (2 * half / (1 + square));
    world->vy = downwards * (world->speed * ((1 - square) / (1 + square)));
}

static void serve(World *world) {
    world->x = MIDDLE + (HALF_WIDTH - 1) * random_signed(&world->random);
    world->y = SERVE;
    world->speed = SERVE_SPEED;
    aim_ball(world, random_signed(&world->random), 1);
}

static void begin(World *world) {
    for (int row = 0; row < ROWS; ++row) world->bricks[row] = ((1u << COLUMNS) - 1) << 1;
    world->paddle = MIDDLE;
    world->tick = 0;
    world->points = 0;
    world->balls = BALLS;
    world->left = BRICKS;
    serve(world);
}

static void reset(const int32_t *options, void *states, size_t num_worlds) {
    (void)options;
    for (size_t i = 0; i < num_worlds; ++i) begin((World *)states + i);
}

static void view_numbers(const World *world, float *seen) {
    seen[0] = (world->paddle - MIDDLE) / HALF_WIDTH;
    seen[1] = (world->x - MIDDLE) / HALF_WIDTH;
    seen[2] = (world->y - (TOP + HALF_HEIGHT)) / HALF_HEIGHT;
    seen[3] = world->vx / MAX_SPEED;
    seen[4] = world->vy / MAX_SPEED;
    seen[5] = (float)world->points / ALL_POINTS;
    seen[6] = (float)world->balls / BALLS;
}

static void view_bricks(const World *world, float *seen) {
    seen += NUMBERS;
    for (int row = 0; row < ROWS; ++row)
        for (int column = 1; column <= COLUMNS; ++column)
            *seen++ = (float)(world->bricks[row] >> column & 1);
}

static void view(const World *world, float *seen) {
    view_numbers(world, seen);
    view_bricks(world, seen);
}

static void observe(const int32_t *options, const void *states, size_t num_worlds, Rows rows) {
    (void)options;
    float *seen = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, seen += OBSERVED)
        view((const World *)states + i, seen);
}

static inline void move(World *world, int64_t action) {
    const float x = world->paddle + MOVES[action];
    world->paddle = at_most(x < LEFT + HALF_PADDLE ? LEFT + HALF_PADDLE : x, RIGHT - HALF_PADDLE);
}

// Fly left or right for a part of the frame, and off the side walls.
static inline void drift(World *world, float time) {
    const float x = world->x + world->vx * time;
    const bool leftwards = world->vx < 0, bounces = leftwards ? x < LEFT : x >= RIGHT;
    world->x = bounces ? (leftwards ? 2 * LEFT : 2 * RIGHT) - x : x;
    world->vx = bounces ? -world->vx : world->vx;
}

// The ball reaches the paddle's line in this frame: it comes back, or it is lost.
static void meet_paddle(World *world) {
    const float time = (PADDLE - world->y) / world->vy;
    drift(world, time);
    const float aim = (world->x - world->paddle) / HALF_PADDLE;
    if (magnitude(aim) > 1) {
        --world->balls;
        serve(world);
        return;
    }
    world->speed = at_most(world->speed + SPEED_UP, MAX_SPEED);
    aim_ball(world, aim, -1);
    drift(world, 1 - time);
    world->y = PADDLE + world->vy * (1 - time);
}

// The ball's way along one direction in a frame, if nothing is in the way.
typedef struct {
    float to, edge;  // where it ends; the edge between the two cells, if they differ
    int cell, next;  // where it is, and where it would be
} Way;

static inline Way way_of(float from, float velocity, int size) {
    const float to = from + velocity;
    const int cell = (int)(from / (float)size), next = (int)(to / (float)size);
    return (Way){to, (float)(size * (next > cell ? next : cell)), cell, next};
}

static bool is_wall(int row, int column) { return row < 1 || column < 1 || column > COLUMNS; }

static bool is_brick(const World *world, int row, int column) {
    const unsigned line = (unsigned)(row - FIRST_ROW);
    return line < ROWS && world->bricks[line] >> column & 1;
}

static void take_brick(World *world, int row, int column) {
    world->bricks[row - FIRST_ROW] &= ~(1u << column);
    world->points += POINTS[row - FIRST_ROW];
    --world->left;
}

// Pass into the cell (row, column), the next one of `way`, or turn back from what is there.
static inline void pass(World *world, Way *way, float *velocity, int row, int column) {
    if (way->next == way->cell) return;
    const bool brick = is_brick(world, row, column);
    if (!brick && !is_wall(row, column)) {
        way->cell = way->next;
        return;
    }
    if (brick) take_brick(world, row, column);
    way->to = 2 * way->edge - way->to;
    *velocity = -*velocity;
}

// A frame among the bricks. Of two edges that are crossed, the nearer one in time comes first.
static void bounce(World *world) {
    Way across = way_of(world->x, world->vx, WIDTH), down = way_of(world->y, world->vy, HEIGHT);
    // Distances over speeds, both times the product of the speeds: no division.
    const float across_time = magnitude((across.edge - world->x) * world->vy);
    const float down_time = magnitude((down.edge - world->y) * world->vx);
    if (across_time <= down_time) {
        pass(world, &across, &world->vx, down.cell, across.next);
        pass(world, &down, &world->vy, down.next, across.cell);
    } else {
        pass(world, &down, &world->vy, down.next, across.cell);
        pass(world, &across, &world->vx, down.cell, across.next);
    }
    world->x = across.to;
    world->y = down.to;
}

static inline void fly(World *world) {
    const float y = world->y + world->vy;
    if (y >= PADDLE) {
        meet_paddle(world);
    } else if (y < FREE || world->y < FREE) {
        bounce(world);
    } else {
        world->y = y;
        drift(world, 1);
    }
}

static bool is_over(const World *world) { return !world->balls || !world->left; }

static void play(World *world, int64_t action, int frames) {
    for (int frame = 0; frame < frames && !is_over(world); ++frame) {
        move(world, action);
        fly(world);
    }
    ++world->tick;
}

static Record finish(World *world) {
    const Record record = {
        .score = (float)world->points / ALL_POINTS,
        .episode_return = (float)world->points * REWARD_OF_A_POINT,
        .episode_length = (int32_t)world->tick,
    };
    begin(world);
    return record;
}

static Record *step(const int32_t *options, void *states, size_t num_worlds, Rows rows) {
    const int frames = options[FRAMESKIP];
    const uint32_t limit = (uint32_t)options[MAX_STEPS];
    float *seen = rows.observations;
    for (size_t i = 0; i < num_worlds; ++i, seen += OBSERVED) {
        World *world = (World *)states + i;
        const int before = world->points;
        play(world, rows.actions[i], frames);
        rows.rewards[i] = (float)(world->points - before) * REWARD_OF_A_POINT;
        const bool over = is_over(world), ended = over || world->tick == limit;
        const bool changed = ended || world->points != before;
        if (ended) {
            rows.terminals[i] = over;
            rows.truncations[i] = !over;
            if (!over) view(world, (float *)rows.final_observations + i * OBSERVED);
            *rows.records++ = finish(world);
        }
        view_numbers(world, seen);
        if (changed) view_bricks(world, seen);
    }
    return rows.records;
}

enum { PICTURE_ROWS = PADDLE + HEIGHT, PICTURE_COLUMNS = RIGHT + WIDTH };

static size_t picture_rows(const int32_t *options) {
    (void)options;
    return PICTURE_ROWS;
}

static size_t picture_columns(const int32_t *options) {
    (void)options;
    return PICTURE_COLUMNS;
}

enum { BLACK = 0, GREY = 0x808080, WHITE = 0xFFFFFF };
static const uint32_t ROW_COLORS[ROWS] = {0xDC322F, 0xE66428, 0xE6A028,
                                          0xD2D23C, 0x50AA50, 0x466ED2};

static uint32_t color_of(const World *world, int row, int column) {
    if (is_wall(row, column)) return GREY;
    return is_brick(world, row, column) ? ROW_COLORS[row - FIRST_ROW] : BLACK;
}

static void paint(uint8_t *rgb, int y, int x, uint32_t color) {
    set_pixel(rgb, (size_t)(y * PICTURE_COLUMNS + x), color);
}

static void draw(const int32_t *options, const void *state, uint8_t *rgb) {
    (void)options;
    const World *world = state;
    for (int y = 0; y < PICTURE_ROWS; ++y)
        for (int x = 0; x < PICTURE_COLUMNS; ++x)
            paint(rgb, y, x, color_of(world, y / HEIGHT, x / WIDTH));
    const int paddle = (int)world->paddle;
    for (int x = paddle - HALF_PADDLE; x < paddle + HALF_PADDLE; ++x) paint(rgb, PADDLE, x, WHITE);
    paint(rgb, (int)world->y, (int)world->x, WHITE);
}

const Game BREAKOUT = {
    .name = "breakout",
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
