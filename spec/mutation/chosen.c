/* Which mutants are chosen when the program runs: NULLBLOCK_MUTANT and NULLBLOCK_MUTANT_TOO are
 * their numbers. NULLBLOCK_FORMS are the numbers of mutants of statements that are judged on the
 * way, and NULLBLOCK_SILENT is a statement whose own objections do not end the search. With
 * NULLBLOCK_PLACES the program says of each mutant that it is asked about that it was; of those of
 * NULLBLOCK_COMPARED only where the mutant is not what the text is.
 *
 * MUTANTS, which is above all numbers, comes before this, from Python.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mutant, other, silent, places, trying;
static int forms[MUTANTS], n_forms, n_left;
static int met[MUTANTS], n_met; /* forms whose place was met while a statement was judged */
static char told[MUTANTS], is_met[MUTANTS], is_compared[MUTANTS];
static enum { ELSEWHERE, LISTENING, JUDGING } now_doing;

static int told_number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void __attribute__((constructor)) choose(void) {
  const char *text = getenv("NULLBLOCK_FORMS"), *compared = getenv("NULLBLOCK_COMPARED");
  mutant = told_number("NULLBLOCK_MUTANT", 0);
  other = told_number("NULLBLOCK_MUTANT_TOO", 0);
  silent = told_number("NULLBLOCK_SILENT", -1);
  places = told_number("NULLBLOCK_PLACES", 0);
  memset(told, places, sizeof told);
  told[mutant] = told[other] = 1;
  for (; text && *text; text += *text == ',') {
    int n = (int)strtol(text, (char **)&text, 10);
    forms[n_forms++] = n;
    told[n] = 1;
  }
  n_left = n_forms;
  for (; compared && *compared; compared += *compared == ',')
    is_compared[strtol(compared, (char **)&compared, 10)] = 1;
}

static void say_met(int n) {
  printf("{\"met\": %d}\n", n);
  told[n] = 0;
}

/* Whether one of those that the program was told of is chosen. Statements alone may meet forms: a
 * place that decides what happens is none that could be judged beside the search. */
static int chosen(int n) {
  if (n == mutant || n == other) return 1;
  if (trying) return n == trying;
  if (places) {
    say_met(n);
    return 0;
  }
  if (now_doing == ELSEWHERE) {
    printf("{\"outcome\": \"astray\", \"form\": %d}\n", n);
    exit(0);
  }
  if (now_doing == LISTENING && !is_met[n]) {
    is_met[n] = 1;
    met[n_met++] = n;
  }
  return 0;
}

#define ASKED(n) (told[n] && chosen(n))

enum { TEXT, CHOSEN, COMPARED };

/* The same where a mutant's value and the text's can be compared. */
static int asked(int n) {
  if (places && is_compared[n] && !trying) return COMPARED;
  return chosen(n) ? CHOSEN : TEXT;
}

/* The value of mutant n, or of the text. */
#define FORK(type, n, of_mutant, of_text) ({ \
  int asked_ = told[n] ? asked(n) : TEXT; \
  type mutant_ = 0, value_; \
  if (asked_ == COMPARED) { \
    begin_trial(n); \
    if (setjmp(failure)) { \
      end_trial(); \
      say_met(n); \
      asked_ = TEXT; \
    } \
  } \
  if (asked_) mutant_ = (of_mutant); \
  if (asked_ == COMPARED) end_trial(); \
  value_ = asked_ == CHOSEN ? mutant_ : (of_text); \
  if (asked_ == COMPARED && value_ != mutant_) say_met(n); \
  value_; \
})

/* A statement that mutant n leaves out. */
#define SKIP(n, ...) { \
  int asked_ = told[n] ? asked(n) : TEXT, effects_ = n_effects; \
  S before_; \
  if (asked_ == COMPARED) memcpy(&before_, &st, sizeof st); \
  if (asked_ != CHOSEN) __VA_ARGS__ \
  if (asked_ == COMPARED && (effects_ != n_effects || memcmp(&before_, &st, sizeof st))) \
    say_met(n); \
}

static int n_effects; /* rules that fired, and what else a state does not show */
static void begin_trial(int n);
static void end_trial(void);
static int untried(void);
static void consider(int statement, int rule, int (*holds)(void));
