/* Which mutants are chosen when the program runs: NULLBLOCK_MUTANT and NULLBLOCK_MUTANT_TOO are
 * their numbers. NULLBLOCK_FORMS are the numbers of mutants of statements that are judged on the
 * way, and NULLBLOCK_SILENT is a statement whose own objections do not end the search. With
 * NULLBLOCK_PLACES the program says of each mutant that it is asked about that it was.
 *
 * MUTANTS, which is above all numbers, comes before this, from Python.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mutant, other, silent, places;
static int forms[MUTANTS], n_forms, n_left;
static int met[MUTANTS], n_met; /* forms whose place was met while a statement was judged */
static char told[MUTANTS], is_met[MUTANTS];
static enum { ELSEWHERE, LISTENING, JUDGING } now_doing;

static int told_number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void __attribute__((constructor)) choose(void) {
  const char *text = getenv("NULLBLOCK_FORMS");
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
}

/* Whether one of those that the program was told of is chosen. Statements alone may meet forms: a
 * place that decides what happens is none that could be judged beside the search. */
static int chosen(int n) {
  if (n == mutant || n == other) return 1;
  if (places) {
    printf("{\"met\": %d}\n", n);
    told[n] = 0;
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

static void consider(int statement, int rule, int (*holds)(void));
