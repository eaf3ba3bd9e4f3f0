// All native environments.
#include "game.h"

const Game *const GAMES[] = {&SQUARED};
const size_t NUM_GAMES = sizeof GAMES / sizeof *GAMES;
