"""A token that was sampled for an earlier owner of an id, whose new one awaits its grammar."""

import json

from nullblock.conformance import driver, scenario
from nullblock.conformance.engines import make_engine
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

LATE = {
    "config": {},
    "events": [
        {"op": "add", "id": "g", "prompt": {"range": [0, 1]}, "max_tokens": 1},
        {"op": "schedule"},
        {"op": "abort", "ids": ["g"]},
        {"op": "add", "id": "g", "prompt": {"range": [2, 4]}, "max_tokens": 1, "grammar": {}},
        {"op": "drain"},
    ],
}


def ends(engine: str, semantics: Semantics, *, ready: bool) -> str:
    """What the last event comes to."""
    document = json.loads(json.dumps(LATE))
    document["events"][3]["grammar"]["ready"] = ready
    given = scenario.from_dict(document)
    lines = list(driver.run(given, make_engine(engine, given.config, semantics)))
    return str(json.loads(lines[-2])["ev"])


def test_it_is_an_error_where_frames_go_by_the_id() -> None:
    """As vLLM 0.22.1 does, which asks a grammar that is not there; one that is there takes it."""
    for engine in ("spec", "reference"):
        assert ends(engine, VLLM_0_22_1, ready=False) == "EXCEPTION"
        assert ends(engine, VLLM_0_22_1, ready=True) == "update"
        assert ends(engine, NORMATIVE, ready=False) == "update"
