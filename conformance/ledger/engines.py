"""What shows things, explained to somebody who never saw it."""

from nullblock.conformance.ledger.rows import Engine

ENGINES: dict[str, Engine] = {
    e.name: e
    for e in (
        Engine(
            "Z3",
            "Z3: proof for any size",
            "Z3 is a program that decides whether any values at all make a formula true. For each "
            "rule and each invariant it is asked for a state in which all invariants hold, the "
            "rule fires and this one is broken: where it shows that there is no such state, "
            "nothing of any size can break it.",
            "The first state and every rule are asked about; the machine fires rules only where "
            "they are allowed, which are questions of their own. Trusted are Z3, the translation "
            "of the text to formulas, and a few axioms about sizes and orders, each of which a "
            "test compares with plain arithmetic. Block hashes are taken to be ideal: equal "
            "hashes, equal contents.",
            "That something happens in the end, and anything outside the rule text. Statements "
            "that compare the states before and after a whole step are left to the explorer. What "
            "Z3 cannot decide is called open.",
            "nullblock prove",
        ),
        Engine(
            "explorer",
            "The explorer: every state of a small system",
            "It starts an empty engine with a pool of a few blocks, does everything that may "
            "happen next (arrivals, steps, aborts, resets), and goes on from every state it has "
            "not seen yet, until there is none. Every statement is checked in every state, so a "
            "fault gives a shortest story of how it comes about.",
            "The rule text itself runs, as ordinary Python or compiled to C with the same states "
            "and transitions. Each scope names situations that it has to reach (a preemption, a "
            "duplicate hash), or its pass counts for nothing.",
            "A fault that takes more blocks, requests or tokens than the scope has.",
            "nullblock explore",
        ),
        Engine(
            "CrossHair",
            "CrossHair: every path of a function",
            "CrossHair runs a Python function on inputs that stand for all inputs and follows "
            "every way through it. If it comes to the end of all of them, what the function "
            "promises is confirmed over all paths.",
            "CrossHair and its models of Python's own operations, and the bounds on inputs that "
            "the function states.",
            "A function with ways beyond counting: for those it only fails to refute.",
            "make pytest T=tests/crosshair",
        ),
        Engine(
            "lockstep",
            "Lockstep: the real engine beside ours",
            "Random scenarios are played on the specification, on the reference and on the real "
            "vLLM 0.22.1 at once. Every decision and the whole state after it are compared, and a "
            "difference is shrunk to a small scenario.",
            "The real scheduler runs unchanged, without a model: sampled tokens are made up. What "
            "the scenarios reached is counted.",
            "That there is no difference anywhere: it can refute, and never confirm.",
            "make fuzz",
        ),
        Engine(
            "traces",
            "The trace checker: what really happened",
            "Runs of the real vLLM 0.22.1 were recorded, most of them under production "
            "workloads. From the recorded inputs the rules make every decision again, and the "
            "first that differs is named with its rule.",
            "The recordings are complete, and the checker runs the rule text with its guards "
            "erased, which tests compare with the readable text.",
            "Anything that the recorded runs did not do.",
            "nullblock check conformance/bundled/*.zst",
        ),
        Engine(
            "streams",
            "KV events: what a server publishes",
            "A vLLM server announces which blocks its prefix cache gains and loses. Recorded "
            "streams of the real vLLM 0.22.1 were judged event by event, by the law that such a "
            "stream has to obey.",
            "The law alone: it is checked against a model of a cache as well, and each stream "
            "was recorded whole.",
            "That a server is right: a stream tells too little, and its best verdict is "
            "INCONCLUSIVE.",
            "nullblock import kv-events FILE",
        ),
    )
}
