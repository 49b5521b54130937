"""One source, gathered in a process of its own: `python -m nullblock.conformance.ledger.worker
NAME` prints its record.
"""

import sys

import msgspec

from nullblock.conformance.ledger.registry import SOURCES

if __name__ == "__main__":
    found = msgspec.json.encode(SOURCES[sys.argv[1]].gather())
    sys.stdout.buffer.write(found)
