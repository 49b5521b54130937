"""The recorder: runs inside vLLM, imports the standard library and msgspec, which vLLM brings.

``pip install --no-deps nullblock`` beside vLLM is enough for it.
"""
