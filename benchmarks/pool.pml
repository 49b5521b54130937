/* The pool model in Promela, for SPIN: requests that share a pool of blocks, prefix caching off.
 *
 * What nullblock's scope "pool" (benchmarks/bench_explorer.py) is, written by hand: the same
 * decisions, the same states between steps, blocks under their own names. That the two are the
 * same shows in equal counts of states, which the benchmark compares. Sizes and requests are
 * given with -D.
 */
#define UNBORN 0
#define WAITING 1
#define PREEMPTED 2
#define RUNNING 3

byte stage[R], comp[R], ntok[R], tlen[R];
byte tab[R * L];        /* tables, one after another */
byte queue[N];          /* the free queue, least recently freed first */
byte free_blocks;
byte batch[R], running;   /* the running list */
byte wait[R], waiting;  /* the waiting queue */

hidden byte sched[R], at, budget, turned, halted, blocked, r, v, n, need, i, j;
hidden byte prompt[R], most[R];

#define BLOCKS(tokens) (((tokens) + SIZE - 1) / SIZE)
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* A block for request x, from the front of the free queue. */
inline take(x) {
  tab[x * L + tlen[x]] = queue[0];
  tlen[x]++;
  free_blocks--;
  i = 0;
  do
  :: i < free_blocks -> queue[i] = queue[i + 1]; i++
  :: else -> break
  od;
  queue[free_blocks] = 0
}

/* All blocks of x to the back of the free queue, the last of its table first. */
inline release(x) {
  do
  :: tlen[x] > 0 ->
     tlen[x]--;
     queue[free_blocks] = tab[x * L + tlen[x]];
     free_blocks++;
     tab[x * L + tlen[x]] = 0
  :: else -> break
  od
}

/* x leaves the running list. */
inline leave_running(x) {
  i = 0;
  do
  :: batch[i] != x + 1 -> i++
  :: else -> break
  od;
  running--;
  do
  :: i < running -> batch[i] = batch[i + 1]; i++
  :: else -> break
  od;
  batch[running] = 0
}

inline leave_waiting(x) {
  i = 0;
  do
  :: wait[i] != x + 1 -> i++
  :: else -> break
  od;
  waiting--;
  do
  :: i < waiting -> wait[i] = wait[i + 1]; i++
  :: else -> break
  od;
  wait[waiting] = 0
}

inline forget(x) {
  stage[x] = UNBORN; comp[x] = 0; ntok[x] = 0
}

inline enter(x) {
  stage[x] = WAITING; ntok[x] = prompt[x]; wait[waiting] = x + 1; waiting++
}

inline abort(x) {
  if
  :: stage[x] == RUNNING -> leave_running(x); release(x)
  :: else -> leave_waiting(x)
  fi;
  forget(x)
}

/* The last running request goes back to the front of the waiting queue. */
inline preempt() {
  v = batch[running - 1] - 1;
  running--;
  batch[running] = 0;
  release(v);
  comp[v] = 0;
  stage[v] = PREEMPTED;
  i = waiting;
  do
  :: i > 0 -> wait[i] = wait[i - 1]; i--
  :: else -> break
  od;
  wait[0] = v + 1;
  waiting++;
  turned = 1
}

inline grow(x) {
  j = 0;
  do
  :: j < need -> take(x); j++
  :: else -> break
  od
}

inline schedule() {
  budget = BUDGET; turned = 0; halted = 0; blocked = 0; at = 0;
  i = 0;
  do
  :: i < R -> sched[i] = 0; i++
  :: else -> break
  od;
  do
  :: at < running && budget > 0 && !halted ->
     r = batch[at] - 1;
     n = MIN(MIN(ntok[r] - comp[r], budget), MAX_LEN - 1 - comp[r]);
     if
     :: n == 0 -> at++
     :: else ->
        need = BLOCKS(comp[r] + n) - tlen[r];
        do
        :: need > free_blocks && !halted ->
           preempt();
           if
           :: v == r -> halted = 1
           :: else -> skip
           fi
        :: else -> break
        od;
        if
        :: !halted -> grow(r); sched[r] = n; budget = budget - n; at++
        :: else -> skip
        fi
     fi
  :: else -> break
  od;
  do
  :: !turned && !blocked && budget > 0 && running < SEQS && waiting > 0 ->
     r = wait[0] - 1;
     n = MIN(ntok[r], budget);
     need = BLOCKS(n);
     if
     :: need <= free_blocks ->
        leave_waiting(r);
        batch[running] = r + 1;
        running++;
        stage[r] = RUNNING;
        grow(r);
        sched[r] = n;
        budget = budget - n
     :: else -> blocked = 1
     fi
  :: else -> break
  od
}

/* Outputs come back in the order of the running list, from which those that stop are gone. */
inline update() {
  at = 0;
  do
  :: at < running ->
     r = batch[at] - 1;
     comp[r] = comp[r] + sched[r];
     if
     :: sched[r] > 0 && comp[r] == ntok[r] ->
        ntok[r]++;
        if
        :: ntok[r] >= MAX_LEN || ntok[r] - prompt[r] >= most[r] ->
           leave_running(r); release(r); forget(r)
        :: else -> at++
        fi
     :: else -> at++
     fi
  :: else -> break
  od
}

/* No block is lost or held twice. */
inline check() {
  n = free_blocks; i = 0;
  do
  :: i < R -> n = n + tlen[i]; i++
  :: else -> break
  od;
  assert(n == N && running <= SEQS)
}

active proctype engine() {
  d_step {
    prompt[0] = P0; prompt[1] = P1; prompt[2] = P2;
    most[0] = M0; most[1] = M1; most[2] = M2;
    free_blocks = N;
    i = 0;
    do
    :: i < N -> queue[i] = i + 1; i++
    :: else -> break
    od;
    i = 0
  };
  do
  :: d_step { stage[0] == UNBORN -> enter(0) }
  :: d_step { stage[1] == UNBORN -> enter(1) }
  :: d_step { stage[2] == UNBORN -> enter(2) }
  :: d_step { true -> schedule(); update(); check() }
  :: d_step { stage[0] != UNBORN -> abort(0); check() }
  :: d_step { stage[1] != UNBORN -> abort(1); check() }
  :: d_step { stage[2] != UNBORN -> abort(2); check() }
  od
}
