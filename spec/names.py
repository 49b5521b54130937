"""What vLLM calls the values of some fields: request statuses and pause states."""

from nullblock.spec.fields import (
    GRAMMAR,
    PAUSED_ALL,
    PAUSED_NEW,
    PREEMPTED,
    RUNNING,
    UNPAUSED,
    WAITING,
)

STATUS = {WAITING: "WAITING", PREEMPTED: "PREEMPTED", RUNNING: "RUNNING"}
"""``RequestStatus`` by stage."""
BLOCKED = {GRAMMAR: "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"}
"""The same of a request that awaits something."""
STAGE = {name: stage for stage, name in STATUS.items()}
PAUSE_NAME = {UNPAUSED: "UNPAUSED", PAUSED_NEW: "PAUSED_NEW", PAUSED_ALL: "PAUSED_ALL"}
"""``PauseState`` by pause."""
PAUSE = {name: state for state, name in PAUSE_NAME.items()}
