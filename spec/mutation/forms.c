/* All forms of the statements in one search: what objects is noted, as the search of that form
 * alone would have ended, and the search goes on without it.
 *
 * A form whose place is not met while a statement is judged says what the statement says.
 */

/* How a statement objects; FINE if it holds. */
static int judged(int (*holds)(void)) {
  jmp_buf outer;
  memcpy(&outer, &failure, sizeof outer);
  int how = setjmp(failure);
  if (!how && !holds()) how = VIOLATED;
  memcpy(&failure, &outer, sizeof outer);
  return how;
}

static void note(int form, int how, int statement) {
  printf("{\"form\": %d, \"outcome\": \"%s\", \"statement\": %d, \"states\": %llu, ", form,
         OUTCOMES[how], statement, (unsigned long long)n_states);
  printf("\"transitions\": %llu, \"actions\": %d, \"seconds\": %.6f}\n",
         (unsigned long long)n_transitions, depth + 1, (double)clock() / CLOCKS_PER_SEC);
  told[form] = 0;
  if (--n_left) return;
  printf("{\"outcome\": \"settled\"}\n");
  exit(0);
}

static void consider(int statement, int rule, int (*holds)(void)) {
  if (!n_left) {
    if (!holds()) violated(statement, rule);
    return;
  }
  n_met = 0;
  now_doing = LISTENING;
  int how = judged(holds);
  now_doing = JUDGING;
  for (int i = 0; i < n_met; i++) {
    other = met[i];
    int its = judged(holds);
    if (its) note(met[i], its, statement);
  }
  other = 0;
  now_doing = ELSEWHERE;
  for (int i = 0; how && i < n_forms; i++)
    if (told[forms[i]] && !is_met[forms[i]]) note(forms[i], how, statement);
  for (int i = 0; i < n_met; i++) is_met[met[i]] = 0;
  if (how == VIOLATED && statement != silent) violated(statement, rule);
  if (how && statement != silent) fail(how, failed_at);
}
