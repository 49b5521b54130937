/* When two states are the same: nullblock.spec.explorer.identity, on arrays.
 *
 * An absent entry of a map is one that holds its default, so what only takes such entries out has
 * nothing to do here. That both forms agree is shown by equal counts of states.
 */

static int base_of(const S *s, int i) { return read_base(s, read_frame(s, i)); }

static int within(const int *v, int n, int low, int high) {
  if (!(low < 0 && 0 < high)) return 0;
  for (int i = 0; i < n; i++)
    if (!(low < v[i] && v[i] < high)) return 0;
  return 1;
}

/* Values numbered from 1 in their order, zeros left; the greatest number. */
static int dense(int *v, int n) {
  int old[NI > NB ? NI + NR + 1 : NB + NR + 1], sorted[NI > NB ? NI + NR + 1 : NB + NR + 1];
  int m = 0;
  memcpy(old, v, n * sizeof *v);
  for (int i = 0; i < n; i++) {
    if (!old[i]) continue;
    int at = 0;
    while (at < m && sorted[at] < old[i]) at++;
    if (at < m && sorted[at] == old[i]) continue;
    memmove(sorted + at + 1, sorted + at, (m - at) * sizeof *sorted);
    sorted[at] = old[i];
    m++;
  }
  for (int i = 0; i < n; i++)
    for (int at = 0; old[i] && at < m; at++)
      if (sorted[at] == old[i]) v[i] = at + 1;
  return m;
}

static int distinct(const int *v, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; v[i] && j < i; j++)
      if (v[i] == v[j]) return 0;
  return 1;
}

static int greatest(const int *v, int n) {
  int m = 0;
  for (int i = 0; i < n; i++)
    if (v[i] > m) m = v[i];
  return m;
}

/* Entries, steps and outputs numbered from the oldest in flight. */
static void flights(void) {
  if (st.cur < 0) return;
  int first = st.cur, live = st.nframe - first;
  was = st;
  blank_nth(&st), blank_entry(&st), blank_since(&st), blank_base(&st), blank_spot(&st);
  blank_cum(&st), blank_slip(&st);
  for (int i = first; i < st.nframe; i++) {
    if (owes_token(i)) write_nth(&st, i - first, read_nth(&was, i) - base_of(&was, i));
    if (answers(i))
      write_spot(&st, i - first, read_spot(&was, i) - read_slip(&was, read_frame(&was, i)));
  }
  for (int r = 0; r < NR; r++) {
    for (int n = 0; n < st.drop[r] + st.ph[r]; n++)
      write_entry(&st, r, n, read_entry(&was, r, was.base[r] + n) - first);
    for (int n = st.drop[r]; n < st.drop[r] + st.ph[r]; n++)
      write_cum(&st, r, n, read_cum(&was, r, was.base[r] + n) - was.landed[r]);
    st.flown[r] -= st.landed[r];
    st.landed[r] = 0;
    if (st.stage[r] == RUNNING && was.since[r] > first) st.since[r] = was.since[r] - first;
    st.paced[r] = was.paced[r] > was.steps ? was.paced[r] - was.oldest : 0;
  }
  blank_frame(&st), blank_born(&st), blank_grant(&st), blank_due(&st), blank_fend(&st);
  blank_ndraft(&st);
  for (int i = 0; i < live; i++) {
    write_frame(&st, i, read_frame(&was, first + i));
    write_born(&st, i, read_born(&was, first + i));
    write_grant(&st, i, read_grant(&was, first + i));
    write_due(&st, i, read_due(&was, first + i));
    write_ndraft(&st, i, read_ndraft(&was, first + i));
  }
  for (int n = st.oldest; n < st.steps; n++)
    write_fend(&st, n - st.oldest, read_fend(&was, n) - first);
  st.cur = 0;
  st.nframe -= first;
  st.steps -= st.oldest;
  st.oldest = 0;
}

/* Places in a queue numbered from 1: under PRIORITY its order is another one. */
static void queue(int *v) {
  if (!(PRIORITY && distinct(v, NR))) {
    dense(v, NR);
    return;
  }
  int old[NR];
  memcpy(old, v, sizeof old);
  for (int r = 0; r < NR; r++)
    if (old[r]) {
      v[r] = 1;
      for (int q = 0; q < NR; q++) v[r] += old[q] && ORDER[q] < ORDER[r];
    }
}

static void clocks(void) {
  bits owned = 0;
  for (int i = 0; i < NI; i++)
    if (st.frame[i] != NONE && st.born[i] && st.born[i] == read_arr(&st, st.frame[i]))
      owned = with(owned, i);
  if (within(st.stamp, NB + 1, st.front, st.back)) {
    st.back = dense(st.stamp, NB + 1) + 1;
    st.front = -1;
  }
  if (within(st.hstamp, NB + 1, -1, st.hclock)) st.hclock = dense(st.hstamp, NB + 1) + 1;
  if (within(st.rank, NR, st.lo, st.hi)) {
    queue(st.rank);
    st.lo = -1;
    st.hi = greatest(st.rank, NR) + 1;
  }
  if (within(st.skip, NR, -1, st.sback)) {
    queue(st.skip);
    st.sback = greatest(st.skip, NR) + 1;
  }
  if (within(st.unused, NI, -1, st.uback)) st.uback = dense(st.unused, NI) + 1;
  if (within(st.arr, NR, -1, st.aclk) && within(st.born, NI, -2, st.aclk)) {
    if (!PRIORITY) dense(st.arr, NR);
    for (int r = 0; PRIORITY && r < NR; r++) st.arr[r] = st.arr[r] != 0;
    st.aclk = greatest(st.arr, NR) + 1;
    for (int i = 0; i < NI; i++)
      st.born[i] = st.frame[i] == NONE ? 0 : has(owned, i) ? read_arr(&st, st.frame[i]) : -1;
  }
}

static void requests(void) {
  for (int t = 0; t < NT; t++) {
    for (int i = st.tlen[t] < 0 ? 0 : st.tlen[t]; i < NI; i++) st.tab[t][i] = NONE;
    for (int b = 0; b <= NB; b++)
      if (st.pos[t][b] < 0) st.pos[t][b] = -1;
  }
  for (int r = 0; r < NR; r++) {
    if (st.stage[r] != RUNNING) st.ix[r] = 0;
    st.npre[r] = 0;
    if (!st.loadto[r]) st.loadfrom[r] = 0;
  }
}

static void rename_blocks(void) {
  int name[NB + 1], at[NB + 1], n = 0;
  memset(name, 0, sizeof name);
  for (int t = 0; t < NT; t++)
    for (int i = 0; i < st.tlen[t] && i < NI; i++) {
      int b = st.tab[t][i];
      if (b >= 1 && b <= NB && !name[b]) name[b] = ++n;
    }
  int queued = 0;
  for (int b = 1; b <= NB; b++) {
    if (!st.stamp[b]) continue;
    int to = queued++;
    while (to > 0 && st.stamp[at[to - 1]] > st.stamp[b]) {
      at[to] = at[to - 1];
      to--;
    }
    at[to] = b;
  }
  for (int i = 0; i < queued; i++)
    if (!name[at[i]]) name[at[i]] = ++n;
  for (int b = 1; b <= NB; b++)
    if (!name[b]) name[b] = ++n;
  for (int b = 1; b <= NB; b++)
    if (name[b] != b) {
      rename_fields(name);
      return;
    }
}

static void normalise(void) {
  flights();
  clocks();
  requests();
  for (int b = 0; b <= NB; b++) {
    int idle = st.hsh[b] != NONE && !st.ref[b];
    if (!idle) st.done[b] = 0;
    if (!idle || st.evicted == 1 || WINDOWED) st.pw[b] = NONE;
  }
  for (int i = st.nr < 0 ? 0 : st.nr; i < NI; i++) st.run[i] = NONE;
  if (st.phase == IDLE && !(st.leaving || st.looking || st.nhit || st.asked || st.open)) forget();
  if (CANONICAL) rename_blocks();
}
