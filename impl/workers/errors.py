"""Why a worker refuses a message: in one line, with the remedy."""


class WorkerError(ValueError):
    """A message that cannot be applied; the mirror is as it was before."""


class Malformed(WorkerError):
    """It is no message, or says what cannot be: damaged, truncated, of another version."""


class OutOfTurn(WorkerError):
    """A message was lost, came twice or too early, or the step before is not done with."""


class Diverged(WorkerError):
    """The worker does not know what the scheduler knows. After a digest that differs, the message
    has been applied already.
    """


class Unreachable(WorkerError):
    """The group is broken: somebody is gone, or did not answer in time."""
