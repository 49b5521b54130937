"""What vLLM calls the values of some fields: request statuses, pause states, finish reasons."""

from nullblock.spec.fields import (
    CONTINUE,
    ERROR,
    GRAMMAR,
    INPUT,
    LENGTH,
    PAUSED_ALL,
    PAUSED_NEW,
    PREEMPTED,
    REMOTE,
    REPETITION,
    RUNNING,
    STOPPED,
    STOPPED_BY_ID,
    UNPAUSED,
    WAITING,
)

STATUS = {WAITING: "WAITING", PREEMPTED: "PREEMPTED", RUNNING: "RUNNING"}
"""``RequestStatus`` by stage."""
BLOCKED = {
    GRAMMAR: "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    INPUT: "WAITING_FOR_STREAMING_REQ",
    REMOTE: "WAITING_FOR_REMOTE_KVS",
}
"""The same of a request that awaits something."""
STAGE = {name: stage for stage, name in STATUS.items()}
PAUSE_NAME = {UNPAUSED: "UNPAUSED", PAUSED_NEW: "PAUSED_NEW", PAUSED_ALL: "PAUSED_ALL"}
"""``PauseState`` by pause."""
PAUSE = {name: state for state, name in PAUSE_NAME.items()}
FINISH = {
    CONTINUE: None,
    STOPPED: "stop",
    STOPPED_BY_ID: "stop",
    LENGTH: "length",
    ERROR: "error",
    REPETITION: "repetition",
}
"""``FinishReason`` by verdict of the stop check."""
