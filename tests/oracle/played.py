"""What surrounds the engine, played: loads the files of ``conformance/played``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "conformance" / "played"


def _load(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"played_{name}", FOLDER / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


_connector, _grammar, encoder = _load("connector"), _load("grammar"), _load("encoder")
AllGroupsConnector = _connector.AllGroupsConnector
make_connector = _connector.make_connector
PlayedGrammar = _grammar.PlayedGrammar
PlayedGrammars = _grammar.PlayedGrammars
Embeds = encoder.Embeds
EncoderConnector = encoder.EncoderConnector
Mask = encoder.Mask
