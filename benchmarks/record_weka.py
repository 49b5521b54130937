"""Records a bundled trace: the real vLLM 0.22.1, as it is by default, under agentic sessions.

    python benchmarks/record_weka.py weka_claude_code_agentic.jsonl.gz

needs sessions of WEKA (callanjfox/kv-cache-tester at 94f6046d, packed or as published) and the
real engine (``make oracle``). It is ``nullblock replay`` with the settings below: the same file
gives the same bytes. What was changed is said in ``conformance/bundled/README.md``.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "conformance" / "bundled" / "weka-agents-async.jsonl.zst"
CONFIG = "vllm,num_blocks=6144,max_num_batched_tokens=2048,max_num_seqs=64"
SETTINGS = {
    "--engine": "vllm",
    "--config": CONFIG,
    "--format": "weka",
    "--scale-lengths": "8",
    "--users": "14",
    "--session-gap": "0.5",
    "--speed": "4",
    "--ends-by": "length",
    "--limit": "600",
    "--preload": str(ROOT / "tests" / "oracle" / "preload.py"),
}


def main() -> None:
    """Replay and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weka", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    parser.add_argument("--python", type=Path, default=ROOT / ".oracle" / "bin" / "python")
    arguments = parser.parse_args()
    program = "from nullblock.conformance.start import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "replay", arguments.weka]
    command += [word for pair in SETTINGS.items() for word in pair]
    command += ["--python", arguments.python, "--trace", arguments.output]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
