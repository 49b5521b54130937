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
