"""For ``nullblock replay --engine vllm --python .oracle/bin/python --preload THIS FILE``.

The oracle's environment has vLLM without torch; the scheduler is the real one all the same.
"""

import torchless

torchless.install()
