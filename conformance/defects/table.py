"""The table of defects, as a document, as Markdown and for people."""

from pathlib import Path

from nullblock.conformance.defects.catalogue import Known, known

README = Path(__file__).with_name("README.md")
UPSTREAM = "https://github.com/vllm-project/vllm/issues/"
"""Leads to a pull request too."""
INTRODUCTION = """\
# The known defects of vLLM 0.22.1

What the scheduler and the KV-cache manager of that release do and ought not to, each shown by a
golden scenario that the real engine has played. `nullblock defects` prints the table, `nullblock
defects NAME` one of them; this page is made by `nullblock defects --markdown`.

* **switch**: the decision switch that repairs it: normative behaviour is defined, and run by
  specification and reference alike (`nullblock profiles`). Without one, the reference does what
  the release does in every profile.
* **breaks**: the statement that falls; `nullblock explore --departures` finds a shortest
  counterexample by itself, from the rules.
* **upstream**: issues and pull requests of vllm-project/vllm; *near* are those about something
  close to it. Where none was found there is a **page** as a maintainer would want to read it, and
  likewise where the report leaves something out. Looked for in November 2026, in a stored copy of
  issues and pull requests: others may exist.
* **0.32.0**: whether that release, too, prints what shows the defect.

To see one, by our reference engine and by the real one:

    nullblock run --engine reference --profile vllm-0.22.1 conformance/vectors/NAME.json
    PYTHONHASHSEED=0 .oracle/bin/python tests/oracle/drive.py conformance/vectors/NAME.json

"""


def document() -> dict[str, object]:
    """Everything the table says, for programs."""
    return {
        "engine": "vllm-0.22.1",
        "defects": [
            {
                "name": each.name,
                "says": each.says,
                "scenarios": [f"{name}.json" for name in (each.scenario, *each.more)],
                "switches": each.switches,
                "breaks": each.breaks,
                "departures": list(each.departures),
                "reports": list(each.reports),
                "near": list(each.near),
                "later": each.later,
                "remark": each.remark or None,
                "page": each.page.name if each.page.exists() else None,
            }
            for each in known()
        ],
    }


def markdown() -> str:
    """The page."""
    rows = [
        "| defect | what goes wrong | switch | breaks | upstream | 0.32.0 |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(_cells(each))} |" for each in known()),
    ]
    return INTRODUCTION + "\n".join(rows) + f"\n\n{counted()}\n" + _remarks()


def counted() -> str:
    """How many there are, in a sentence."""
    rows = known()
    unreported = sum(not each.reports for each in rows)
    switched = sum(bool(each.switches) for each in rows)
    still = sum(each.later == "still there" for each in rows)
    return (
        f"{len(rows)} defects: {switched} have a switch, {unreported} no report that was found, "
        f"{still} are still there in 0.32.0."
    )


def numbers(each: Known) -> str:
    """Its reports, in words."""
    told = ", ".join(map(str, each.reports)) or "none found"
    return f"{told}; near: {', '.join(map(str, each.near))}" if each.near else told


def _cells(each: Known) -> list[str]:
    links = [f"[{each.name}](../vectors/{each.scenario}.json)"]
    if each.page.exists():
        links.append(f"[page](pages/{each.page.name})")
    upstream = ", ".join(map(_link, each.reports)) or "none found"
    if each.near:
        upstream += "; near: " + ", ".join(map(_link, each.near))
    return [
        " ".join(links),
        each.says,
        ", ".join(f"`{s}`" for s in each.switches) or "none yet",
        ", ".join(each.breaks) or "none yet",
        upstream,
        each.later,
    ]


def _link(number: int) -> str:
    return f"[{number}]({UPSTREAM}{number})"


def _remarks() -> str:
    told = [f"* {each.name}: {each.remark}" for each in known() if each.remark]
    return "\n".join(["", "Remarks:", "", *told, ""])
