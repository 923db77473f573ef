"""Write the documents that follow from the code: ``docs/configuration.md``, ``docs/openapi.json``.

Run ``python docs/generate.py`` after a change of the settings, the routes or their examples.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from service.app import create_app  # noqa: E402
from service.engine.fake import FakeEngine  # noqa: E402
from service.settings import ENV_PREFIX, Settings  # noqa: E402
from service.weights import Weights  # noqa: E402

_HEAD = f"""\
# Settings

Made by `python docs/generate.py` from `service/settings.py`: edit that file, not this one.

Every setting is an environment variable `{ENV_PREFIX}*` and a flag of `python -m service`; a flag
goes before a variable. A flag for true or false stands alone, and with `--no-` before its name it
says false. A variable of that prefix that is not in this table stops the start.

| Environment | Flag | Default | Takes | Meaning |
|---|---|---|---|---|
"""


def configuration() -> str:
    """Return ``configuration.md``."""
    return _HEAD + "".join(_row(name) for name in Settings.model_fields)


def _row(name: str) -> str:
    field = Settings.model_fields[name]
    schema = Settings.model_json_schema()["properties"][name]
    flag = "--" + name.replace("_", "-")
    meaning = (field.description or "").replace("\n", " ")
    cells = (f"`{ENV_PREFIX}{name.upper()}`", f"`{flag}`", _default(name), _takes(schema), meaning)
    return "| " + " | ".join(cells) + " |\n"


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    if field.default_factory is not None:
        return "the user's cache folder"
    if field.default is None:
        return "unset"
    return f"`{json.dumps(field.default).strip(chr(34))}`"


def _takes(schema: dict[str, Any]) -> str:
    """Return the kind and the bounds of a setting in words."""
    if "anyOf" in schema:
        [schema] = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "boolean":
        return "`true`, `false`"
    if "pattern" in schema:
        return "an address, `http://` or `https://`"
    if schema["type"] == "string":
        kinds = {"path": "a path", "password": "text, kept secret"}
        return kinds.get(schema.get("format", ""), "text")
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    bounds = [
        words + str(schema[key])
        for key, words in (
            ("minimum", "from "),
            ("exclusiveMinimum", "above "),
            ("maximum", "to "),
        )
        if key in schema
    ]
    return " ".join([kind, *bounds])


def openapi() -> str:
    """Return ``openapi.json``."""
    settings = Settings(engine="fake")
    weights = Weights(Path(), "fake", "none", None)
    app = create_app(settings, FakeEngine(settings), lambda settings, progress: weights)
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Write both documents."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs", help="where to write")
    folder: Path = parser.parse_args(arguments).folder
    for name, text in {"configuration.md": configuration(), "openapi.json": openapi()}.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
