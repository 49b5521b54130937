/* What translated text stands on: numbers, sets, sequences, and the ways in which it can fail.
 *
 * The constants NR, NB, NI, NQ, NONE and the types of the fields come before this, from the
 * translator.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t bits;
#define NOTES 512 /* rules, or witnesses */
typedef struct { int n; int a[SEQUENCE]; } V;
typedef struct { int n; int key[SEQUENCE], value[SEQUENCE]; } M;
enum { FINE, VIOLATED, NOT_ENABLED, BROKEN, CONFUSED, NO_ROOM };
#define VECTOR SEQUENCE

static jmp_buf failure;
static const char *failed_at = "";
static int failed_statement = -1, failed_rule = -1;

static void __attribute__((noreturn)) fail(int how, const char *where) {
  failed_at = where;
  longjmp(failure, how);
}

static void __attribute__((noreturn)) not_enabled(const char *where) { fail(NOT_ENABLED, where); }
static void __attribute__((noreturn)) broken(const char *where) { fail(BROKEN, where); }
static void __attribute__((noreturn)) no_room(const char *what) { fail(NO_ROOM, what); }

static int confused(void) { fail(CONFUSED, ""); }

static void __attribute__((noreturn)) violated(int statement, int rule) {
  failed_statement = statement;
  failed_rule = rule;
  fail(VIOLATED, "");
}

static inline int not_none(int x) { return x == NONE ? confused() : x; }
static inline int truthy(int x) { return x != NONE && x != 0; }
static inline int smaller(int a, int b) { return a < b ? a : b; }

/* As in Python: towards minus infinity. */
static inline int floor_div(int a, int b) {
  if (b == 0) confused();
  int q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int floor_mod(int a, int b) { return a - b * floor_div(a, b); }

static inline bits one(int x) {
  if (x < 0 || x > 63) no_room("a set");
  return (bits)1 << x;
}
static inline bits with(bits s, int x) { return s | one(x); }
static inline int has(bits s, int x) { return x >= 0 && x <= 63 && (s >> x & 1); }
static inline bits without(bits s, int x) { return has(s, x) ? s & ~((bits)1 << x) : s; }
static inline int lowest(bits s) { return __builtin_ctzll(s); }
static inline int count(bits s) { return __builtin_popcountll(s); }

static inline void push(V *v, int x) {
  if (v->n >= SEQUENCE) no_room("a sequence");
  v->a[v->n++] = x;
}
static inline int same(V a, V b) {
  if (a.n != b.n) return 0;
  for (int i = 0; i < a.n; i++)
    if (a.a[i] != b.a[i]) return 0;
  return 1;
}
static inline int among(V v, int x) {
  for (int i = 0; i < v.n; i++)
    if (v.a[i] == x) return 1;
  return 0;
}
static inline void put(M *m, int key, int value) {
  int i = 0;
  while (i < m->n && m->key[i] != key) i++;
  if (i >= SEQUENCE) no_room("a dictionary");
  if (i == m->n) m->n++;
  m->key[i] = key;
  m->value[i] = value;
}
static inline int knows(M m, int key) {
  for (int i = 0; i < m.n; i++)
    if (m.key[i] == key) return 1;
  return 0;
}
static inline int got(M m, int key, int otherwise) {
  for (int i = 0; i < m.n; i++)
    if (m.key[i] == key) return m.value[i];
  return otherwise;
}
static inline int element(V v, int i) {
  if (i < 0) i += v.n;
  return i < 0 || i >= v.n ? confused() : v.a[i];
}
static inline V slice(V v, int low, int high) {
  V part;
  part.n = 0;
  if (low < 0) low = low + v.n < 0 ? 0 : low + v.n;
  if (high < 0) high += v.n;
  for (int i = low; i < high && i < v.n; i++) push(&part, v.a[i]);
  return part;
}

/* Heaps as Python's heapq has them: of requests, compared by their places; NONE is behind the last.
 * Given by request: what it is compared by; of those that come `back`, in which order they do, and
 * how often each stood there besides once; and who `waits` in the waiting queue.
 */
static inline int heap_size(const int *heap, int room) {
  int n = 0;
  while (n < room && heap[n] != NONE) n++;
  return n;
}
static inline int heap_holds(const int *heap, int n, int r) {
  int times = 0;
  for (int i = 0; i < n; i++) times += heap[i] == r;
  return times;
}
/* The entry at i rises until it comes after the one above it, no higher than `top`. */
static inline void heap_rise(int *heap, const int *place, int top, int i) {
  int r = heap[i];
  for (; i > top && place[r] < place[heap[(i - 1) >> 1]]; i = (i - 1) >> 1)
    heap[i] = heap[(i - 1) >> 1];
  heap[i] = r;
}
/* The one at `top` sinks to the bottom, and rises from there. */
static inline void heap_sink(int *heap, const int *place, int n, int top) {
  int r = heap[top], i = top, c;
  for (; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && place[heap[c]] >= place[heap[c + 1]]) c++;
    heap[i] = heap[c];
  }
  heap[i] = r;
  heap_rise(heap, place, top, i);
}
#define HEAP int *heap, int room, const int *place, const int *turn, const int *more, bits back, \
             bits waits, int r
static inline void heap_pushed(HEAP) {
  (void)turn, (void)more, (void)back, (void)waits;
  int n = heap_size(heap, room);
  if (n >= room) no_room("a heap");
  heap[n] = r;
  heap_rise(heap, place, 0, n);
}
static inline void heap_popped(HEAP) {
  (void)turn, (void)more, (void)back, (void)r, (void)waits;
  int n = heap_size(heap, room) - 1;
  if (n < 0) confused();
  int last = heap[n];
  heap[n] = NONE;
  if (n == 0) return;
  heap[0] = last;
  heap_sink(heap, place, n, 0);
}
static inline void heap_joined(HEAP) {
  (void)r;
  for (bits left = back; left;) {
    int next = lowest(left);
    for (bits rest = left; rest; rest &= rest - 1)
      if (turn[lowest(rest)] < turn[next]) next = lowest(rest);
    left = without(left, next);
    int times = 1 + more[next] - heap_holds(heap, heap_size(heap, room), next);
    while (times-- > 0) heap_pushed(heap, room, place, turn, more, back, waits, next);
  }
}
static inline void heap_taken_out(HEAP) {
  (void)place, (void)turn, (void)more, (void)back, (void)waits;
  int n = heap_size(heap, room), kept = 0;
  for (int i = 0; i < n; i++)
    if (heap[i] != r) heap[kept++] = heap[i];
  while (kept < n) heap[kept++] = NONE;
}
static inline void heap_still_waiting(HEAP) {
  (void)place, (void)turn, (void)more, (void)back, (void)r;
  int n = heap_size(heap, room), kept = 0;
  for (int i = 0; i < n; i++)
    if (waits & one(heap[i])) heap[kept++] = heap[i];
  while (kept < n) heap[kept++] = NONE;
}
static inline void heap_heapified(HEAP) {
  (void)turn, (void)more, (void)back, (void)r, (void)waits;
  int n = heap_size(heap, room);
  for (int i = n / 2; i-- > 0;) heap_sink(heap, place, n, i);
}
/* How many come out of the heap before r does. */
static inline int heap_found_at(HEAP) {
  int left[NI];
  memcpy(left, heap, sizeof left);
  for (int n = 0;; n++) {
    if (left[0] == r) return n;
    heap_popped(left, room, place, turn, more, back, waits, r);
  }
}

/* Places in tables: the first is for None, or for what is before the first. */
static inline int some_request(int r) { return r < 0 || r >= NR ? confused() : r; }
static inline int request_at(int r) {
  return r == NONE ? 0 : r < 0 || r >= NR ? confused() + 0 : r + 1;
}
static inline int table_at(int t) {
  return t == NONE ? 0 : t < 0 || t >= NT ? confused() + 0 : t + 1;
}
static inline int table_of(int r, int g) { return r == NONE ? NONE : r * NG + g; }
static inline int owner_of(int t) { return t == NONE ? NONE : t / NG; }
/* Of nobody's tables, which a statement may ask about before it turns out to say nothing, 0. */
static inline int group_of(int t) {
  return t == NONE ? 0 : t < 0 || t >= NT ? confused() + 0 : t % NG;
}
static inline int hash_at(int h) { return h < 0 ? 0 : h + 1; }
static inline int index_at(int i, int width) {
  if (i + 1 >= width) no_room("a table of hashes");
  return i < -1 ? 0 : i + 1;
}
static inline int answer(int x) {
  if (x == FAILS) confused();
  if (x == ROOM) no_room("a table of hashes");
  return x;
}

static unsigned char reached[NOTES], fired[NOTES];
static int done_kind, done_argument;
static int offered, offer_kind[256], offer_argument[256];

static inline void may_happen(int kind, int argument) {
  if (offered == 256) no_room("actions");
  offer_kind[offered] = kind;
  offer_argument[offered++] = argument;
}
