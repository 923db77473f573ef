"""``python -m service.fetch``: get the weights ready without serving, and print their folder.

It takes the service's own settings. For filling a cache before a start that must be quick.
``--base`` gives the embedded model without this project's adapter: what training begins from.
"""

from __future__ import annotations

import logging
import sys

from pydantic import ValidationError
from pydantic_settings import CliApp

from service.embedded import prepare_embedded
from service.errors import StartError
from service.settings import Settings, check_environment
from service.telemetry import configure_logging
from service.weights import resolve_weights

_BASE = "--base"

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Fetch or prepare, verify, print the folder; return the exit code."""
    try:
        check_environment()
        is_base = _BASE in arguments
        settings = CliApp.run(Settings, cli_args=[a for a in arguments if a != _BASE])
        configure_logging(settings.log_level, settings.log_json)
        if is_base:
            folder = prepare_embedded(settings.cache_dir, logger.info, adapter=None)
        else:
            folder = resolve_weights(settings, logger.info).folder
    except (StartError, ValidationError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
