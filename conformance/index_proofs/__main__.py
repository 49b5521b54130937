"""``python -m nullblock.conformance.index_proofs``: prove where the kernels read and write.

Exit code 1 if a claim is not proved, or if it says nothing; 2 if Triton is not installed.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from nullblock.conformance.adapters.kernel_index import expressions
from nullblock.conformance.index_proofs.claim import Proof, decide
from nullblock.conformance.index_proofs.places import CLAIMS as ABOUT_PLACES
from nullblock.conformance.index_proofs.tables import CLAIMS as ABOUT_TABLES

CLAIMS = (*ABOUT_PLACES, *ABOUT_TABLES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="index_proofs", description=(__doc__ or "").split(": ", 1)[1]
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    wanted = parser.parse_args(arguments)
    try:
        texts = expressions()
    except ImportError as missing:
        print(f"index_proofs: {missing}: pip install 'nullblock[gpu]'", file=sys.stderr)
        return 2
    proofs = [decide(claim, texts) for claim in CLAIMS]
    if wanted.json:
        print(json.dumps([asdict(proof) for proof in proofs], indent=1))
    else:
        print("\n".join(_told(proof) for proof in proofs))
    return int(any(proof.verdict != "proved" for proof in proofs))


def _told(proof: Proof) -> str:
    lines = [f"{proof.verdict}: {proof.name}. {proof.sentence}"]
    if proof.expressions:
        lines.append(f"    about {', '.join(proof.expressions)}")
    if proof.rests_on:
        lines.append(f"    rests on: {'; '.join(proof.rests_on)}")
    lines += [f"    not without {name}: {example}" for name, example in proof.without.items()]
    lines += [f"    {proof.detail}"] if proof.verdict != "proved" else []
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
