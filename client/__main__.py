"""``python -m client``: classify a JSONL file, resumably.

    python -m client --url http://127.0.0.1:8000 rows.jsonl --out verdicts.jsonl

The formats stand in ``client/rows.py``, how a run is resumed in ``client/records.py``. Run the same
command again to go on after a stop, or to try failed rows again.

Exit codes: 0 every row is classified; 1 some rows failed, their records hold the problem; 2 a wrong
argument or file, or the service cannot be reached or refuses the key: what was done is kept; 130
Ctrl-C: what was done is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm  # type: ignore[import-untyped]

from client.api_key import DEFAULT_KEY_ENV, read_api_key
from client.arguments import read_count, read_seconds
from client.async_client import AsyncDetectorClient
from client.bulk import BulkRun, StoppedEarly, Tally
from client.errors import DetectorError
from client.records import FileRecords, Records, RecordsError, StreamRecords

_LINE_EVERY_S = 10.0


class Progress:
    """A bar on a terminal, else a line every so often; on stderr."""

    def __init__(self) -> None:
        """Show nothing before the first report."""
        self._bar: tqdm | None = None
        self._next_line = time.monotonic() + _LINE_EVERY_S

    def __call__(self, tally: Tally) -> None:
        """Show how far the run is."""
        done = tally.kept + tally.answered + tally.failed
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=tally.total, initial=done, unit="row", file=sys.stderr)
            self._bar.update(done - self._bar.n)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            print(f"{done}/{tally.total} rows, {tally.failed} failed", file=sys.stderr)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.close()


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        client = AsyncDetectorClient(
            args.url, api_key=read_api_key(args.api_key_env), deadline_s=args.deadline
        )
    except ValueError as error:
        parser.error(str(error))
    try:
        return _run(args, client)
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    except BrokenPipeError:
        return 2  # the reader of stdout has left
    except (StoppedEarly, RecordsError, DetectorError, OSError) as error:
        _say(f"{error}")
        return 2


def _run(args: argparse.Namespace, client: AsyncDetectorClient) -> int:
    with ExitStack() as stack:
        source = stack.enter_context(_opened(args.file))
        records = _open_records(args.out, args.file)
        stack.callback(records.close)
        progress = Progress()
        stack.callback(progress.close)
        bulk = BulkRun(
            source,
            records,
            concurrency=args.concurrency,
            justification=not args.no_justification,
            threshold=args.threshold,
            report=progress,
        )
        try:
            asyncio.run(_classify(bulk, client, args.wait_ready))
        finally:
            progress.close()
            tally = bulk.tally
            _say(
                f"{tally.total} row(s): {tally.kept} answered before, {tally.answered} now, "
                f"{tally.failed} failed, "
                f"{tally.total - tally.kept - tally.answered - tally.failed} left"
            )
    return 1 if tally.failed else 0


async def _classify(bulk: BulkRun, client: AsyncDetectorClient, wait_ready_s: float | None) -> None:
    async with client:
        if wait_ready_s is not None:
            await client.wait_ready(wait_ready_s)
        await bulk.run(client)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open the input as something seekable: it is read more than once."""
    with tempfile.TemporaryFile() as spool:
        if name == "-":
            shutil.copyfileobj(sys.stdin.buffer, spool)
            yield spool
            return
        with open(name, "rb") as file:
            if not file.seekable():
                shutil.copyfileobj(file, spool)
            yield file if file.seekable() else spool


def _open_records(out: str, source: str) -> Records:
    if out == "-":
        return StreamRecords(sys.stdout.buffer)
    if source != "-" and os.path.exists(out) and os.path.samefile(out, source):
        raise RecordsError("--out is the input itself")
    return FileRecords(Path(out))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m client",
        description="Classify the rows of a JSONL file. Run the same command again to go on after "
        "a stop, or to try failed rows again.",
        epilog="Exit codes: 0 all classified, 1 some rows failed, 2 wrong argument or file, or "
        "the service cannot be reached or refuses the key, 130 Ctrl-C.",
    )
    parser.add_argument("file", metavar="FILE", help="rows, one JSON object a line; - for stdin")
    parser.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    parser.add_argument(
        "--out", default="-", metavar="FILE", help="- for stdout (default), which is not resumable"
    )
    parser.add_argument("--concurrency", type=read_count, default=8, metavar="N", help="default 8")
    parser.add_argument(
        "--api-key-env",
        metavar="NAME",
        help=f"environment variable that holds the API key (default {DEFAULT_KEY_ENV})",
    )
    parser.add_argument("--no-justification", action="store_true", help="take the short path")
    parser.add_argument("--threshold", type=_share, metavar="T", help="in [0, 1]")
    parser.add_argument(
        "--deadline", type=read_seconds, default=300.0, metavar="S", help="for a row; default 300"
    )
    parser.add_argument(
        "--wait-ready",
        type=read_seconds,
        metavar="S",
        help="wait so long until the service is ready",
    )
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("must be in [0, 1]")
    return value


if __name__ == "__main__":
    sys.exit(main())
