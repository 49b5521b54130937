/* Breadth-first search over packed states: the order, the counts and the checks of
 * nullblock.spec.explorer.search.
 */

static P *states;
static uint32_t *parent, *edge;
static uint64_t *table_of_states; /* 0, or the high half of a hash and a number from 1 */
static uint16_t *way_in;
static uint8_t *edge_kind;
static uint64_t n_states, room_states, table_mask, n_transitions;
static int depth;

static void __attribute__((noreturn)) no_memory(void) {
  printf("{\"outcome\": \"no-memory\"}\n");
  exit(0);
}

static uint64_t hashed(const P *p) {
  const unsigned char *c = (const unsigned char *)p;
  uint64_t h = 0x9e3779b97f4a7c15u, w;
  size_t i = 0;
  for (; i + 8 <= sizeof(P); i += 8) {
    memcpy(&w, c + i, 8);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  w = 0;
  memcpy(&w, c + i, sizeof(P) - i);
  h = (h ^ w) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 29;
}

static void grow(void) {
  room_states = room_states ? room_states * 2 : 1 << 12;
  if (room_states > (uint64_t)1 << 31) no_memory();
  states = realloc(states, room_states * sizeof *states);
  parent = realloc(parent, room_states * sizeof *parent);
  way_in = realloc(way_in, room_states * sizeof *way_in);
  edge = realloc(edge, room_states * sizeof *edge);
  edge_kind = realloc(edge_kind, room_states);
  free(table_of_states);
  table_of_states = calloc(room_states * 2, sizeof *table_of_states);
  if (!states || !parent || !way_in || !edge || !edge_kind || !table_of_states) no_memory();
  table_mask = room_states * 2 - 1;
  for (uint64_t i = 0; i < n_states; i++) {
    uint64_t h = hashed(&states[i]), at = h & table_mask;
    while (table_of_states[at]) at = (at + 1) & table_mask;
    table_of_states[at] = h >> 32 << 32 | (i + 1);
  }
}

/* The number of a state of hash h, n_states if it is new; `at` is its place in the table. */
static uint32_t find(const P *p, uint64_t h, uint64_t *at) {
  for (*at = h & table_mask; table_of_states[*at]; *at = (*at + 1) & table_mask) {
    uint64_t there = table_of_states[*at];
    uint32_t i = (uint32_t)there - 1;
    if (there >> 32 == h >> 32 && !memcmp(&states[i], p, sizeof *p)) return i;
  }
  return (uint32_t)n_states;
}

static void half(void) {
  done_kind = SCHEDULE;
  if (CHECKED) check_transition();
  was = st;
}

/* Let an action happen, and check it. */
static void perform(int kind, int argument) {
  was = st;
  if (kind == STEP) {
    act(kind, argument);
    done_kind = UPDATE;
    st.preempted = 0;
  } else {
    if (kind != SCHEDULE) st.preempted = 0;
    act(kind, argument);
    done_kind = kind;
  }
  done_argument = argument;
  if (CHECKED) check_transition();
  done_kind = kind;
  watch_event();
}

static void enter(const P *p, uint64_t h, uint64_t at, uint32_t from, int kind, int argument) {
  states[n_states] = *p;
  parent[n_states] = from;
  way_in[n_states] = (uint16_t)(kind << 8 | (argument & 255));
  edge[n_states] = UINT32_MAX;
  table_of_states[at] = h >> 32 << 32 | (n_states + 1);
  if (++n_states == room_states) grow();
}

/* The state that is earliest found on a cycle of steps, if there is one. */
static uint32_t cycle(void) {
  uint32_t first = UINT32_MAX, *seen = calloc(n_states, sizeof *seen);
  if (!seen) no_memory();
  for (uint32_t start = 0; start < n_states; start++) {
    uint32_t i = start;
    while (i != UINT32_MAX && edge[i] != UINT32_MAX && !seen[i]) {
      seen[i] = start + 1;
      i = edge[i];
    }
    if (i == UINT32_MAX || edge[i] == UINT32_MAX || seen[i] != start + 1) continue;
    uint32_t j = i;
    do {
      if (j < first) first = j;
      j = edge[j];
    } while (j != i);
  }
  free(seen);
  return first;
}

static int failed_kind, failed_argument;
static const char *const OUTCOMES[] = {"complete", "violated", "guard",
                                       "promise",  "promise",  "no-room"};

static void print_action(int kind, int argument, const char *before) {
  printf("%s[%d, %d]", before, kind, argument);
}

static void print_way(uint32_t i) {
  uint32_t n = 0, *back = malloc((depth + 2) * sizeof *back);
  if (!back) no_memory();
  for (; i; i = parent[i]) back[n++] = i;
  while (n--) print_action(way_in[back[n]] >> 8, way_in[back[n]] & 255, ", ");
  free(back);
}

/* As a number in hexadecimal digits, whose bits they are. */
static void print_notes(const char *name, const unsigned char *n) {
  printf("\"%s\": \"", name);
  for (int i = NOTES - 4; i >= 0; i -= 4)
    printf("%x", n[i] | n[i + 1] << 1 | n[i + 2] << 2 | n[i + 3] << 3);
  printf("\", ");
}

static void report(const char *outcome, double seconds) {
  printf("{\"outcome\": \"%s\", \"states\": %llu, \"transitions\": %llu, \"depth\": %d, ", outcome,
         (unsigned long long)n_states, (unsigned long long)n_transitions, depth);
  printf("\"seconds\": %.6f, \"bytes\": %d, ", seconds, (int)sizeof(P));
  print_notes("reached", reached);
  print_notes("fired", fired);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* What happens in one state; how it ends. */
static int expand(uint32_t index, const S *base, int unserved_here) {
  static P packed;
  static volatile int i;
  int how = setjmp(failure);
  if (how) {
    failed_kind = offer_kind[i];
    failed_argument = offer_argument[i];
    return how;
  }
  for (i = 0; i < offered; i++) {
    int kind = offer_kind[i], argument = offer_argument[i];
    uint64_t at, h;
    st = *base;
    n_transitions++;
    perform(kind, argument);
    normalise();
    pack(&packed, &st);
    h = hashed(&packed);
    uint32_t number = find(&packed, h, &at);
    if (number == n_states) {
      if (CHECKED) check_invariants();
      enter(&packed, h, at, index, kind, argument);
    }
    if (unserved_here && IS_STEP(kind)) {
      edge[index] = number;
      edge_kind[index] = (uint8_t)kind;
    }
  }
  return FINE;
}

int main(int argc, char **argv) {
  uint64_t limit = argc > 1 ? strtoull(argv[1], 0, 10) : 0, next_level, progress = 0;
  double start = now();
  static S base;
  grow();
  static P packed;
  memset(&packed, 0, sizeof packed);
  int how = setjmp(failure);
  if (!how) {
    begin();
    normalise();
    pack(&packed, &st);
    uint64_t at;
    find(&packed, hashed(&packed), &at);
    enter(&packed, hashed(&packed), at, 0, 0, 0);
  }
  next_level = n_states;
  uint32_t index = 0;
  for (; !how && index < n_states; index++) {
    if (index == next_level) {
      depth++;
      next_level = n_states;
    }
    unpack(&base, &states[index]);
    st = base;
    offered = 0;
    offer();
    int unserved_here = LIVENESS && is_unserved();
    how = expand(index, &base, unserved_here);
    if (!how && limit && n_states >= limit) {
      report("limit", now() - start);
      printf("\"way\": []}\n");
      return 0;
    }
    if (argc > 2 && n_states >= progress) {
      progress = n_states + (1 << 16);
      fprintf(stderr, "%llu %llu\n", (unsigned long long)n_states,
              (unsigned long long)n_transitions);
    }
  }
  double seconds = now() - start;
  uint32_t first = !how && LIVENESS ? cycle() : UINT32_MAX;
  report(first != UINT32_MAX ? "lasso" : OUTCOMES[how], seconds);
  printf("\"statement\": %d, \"rule\": %d, \"at\": \"%s\", \"repeats\": ", failed_statement,
         failed_rule, failed_at);
  uint32_t repeats = 0, j = first;
  for (; first != UINT32_MAX && (!repeats || j != first); j = edge[j]) repeats++;
  printf("%u, \"way\": [[-1, 0]", repeats);
  if (how && how != NO_ROOM) {
    print_way(index ? index - 1 : 0);
    print_action(failed_kind, failed_argument, ", ");
  }
  if (first != UINT32_MAX) print_way(first);
  for (; repeats; repeats--, j = edge[j]) print_action(edge_kind[j], 0, ", ");
  printf("]}\n");
  return 0;
}
