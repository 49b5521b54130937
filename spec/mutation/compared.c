/* Mutants beside the text: while the specification is searched, each that is to be compared is
 * evaluated wherever the text is, until it comes to something else. Whichever never does takes
 * the specification's own way through the scope. What fires a rule, or fails, is something else;
 * a statement that is left out is nothing else where it changes nothing.
 */

static jmp_buf before_trial;

static void begin_trial(int n) {
  memcpy(&before_trial, &failure, sizeof failure);
  trying = n;
}

static void end_trial(void) {
  memcpy(&failure, &before_trial, sizeof failure);
  trying = 0;
}

/* A rule is about to fire. */
static int untried(void) {
  if (trying) fail(CONFUSED, "");
  n_effects++;
  return 0;
}
