"""Records two bundled traces: the real vLLM 0.22.1 under agentic sessions, ahead and in step.

    python benchmarks/record_weka.py weka_claude_code_agentic.jsonl.gz
    python benchmarks/record_weka.py weka_claude_code_agentic.jsonl.gz --sync

needs sessions of WEKA (callanjfox/kv-cache-tester at 94f6046d, packed or as published) and the
real engine (``make oracle``). It is ``nullblock replay`` with the settings below: the same file
gives the same bytes. What was changed is said in ``conformance/bundled/README.md``.

In step, the pool is smaller, more sessions go on at once, and a request is admitted as soon as its
first chunk fits, so that requests are preempted; the scheduler publishes KV events, which are
recorded.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "conformance" / "bundled"
COMMON = {
    "--engine": "vllm",
    "--format": "weka",
    "--scale-lengths": "8",
    "--session-gap": "0.5",
    "--speed": "4",
    "--ends-by": "length",
}
BUDGET = "max_num_batched_tokens=2048,max_num_seqs=64"
ASYNC = {
    "--config": f"vllm,num_blocks=6144,{BUDGET}",
    "--users": "14",
    "--limit": "600",
    "--preload": str(ROOT / "tests" / "oracle" / "preload.py"),
}
SYNC = {
    "--config": f"vllm-sync,num_blocks=5120,{BUDGET},scheduler_reserve_full_isl=false",
    "--users": "18",
    "--limit": "400",
    "--preload": str(ROOT / "benchmarks" / "with_events.py"),
}


def main() -> None:
    """Replay and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weka", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--python", type=Path, default=ROOT / ".oracle" / "bin" / "python")
    arguments = parser.parse_args()
    name = "weka-agents.jsonl.zst" if arguments.sync else "weka-agents-async.jsonl.zst"
    settings = COMMON | (SYNC if arguments.sync else ASYNC)
    program = "from nullblock.conformance.start import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "replay", arguments.weka]
    command += [word for pair in settings.items() for word in pair]
    command += ["--python", arguments.python, "--trace", arguments.output or BUNDLED / name]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
