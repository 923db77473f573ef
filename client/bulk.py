"""One run over a file of rows: skip what is answered, classify the rest, record every outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from client.async_client import AsyncDetectorClient
from client.errors import (
    ConnectionFailed,
    DeadlineExhausted,
    DetectorError,
    InvalidRequest,
    Overloaded,
    ProtocolError,
    Unauthorized,
)
from client.models import Classification
from client.records import Records
from client.rows import Row, RowError, bad_record, read_lines, read_row, record
from contract.example import Example

_FEWEST_UNSERVED = 3


class StoppedEarly(Exception):
    """To go on would fail every row alike; the message says why."""


@dataclass(slots=True)
class Tally:
    """How far a run is, in rows.

    Attributes:
        total: In the input.
        kept: Answered by an earlier run.
        answered: By this one.
        failed: Without an answer in this one.
    """

    total: int = 0
    kept: int = 0
    answered: int = 0
    failed: int = 0


class BulkRun:
    """Classifies the rows of one input."""

    def __init__(
        self,
        source: BinaryIO,
        records: Records,
        *,
        concurrency: int,
        justification: bool,
        threshold: float | None,
        report: Callable[[Tally], None],
    ) -> None:
        """Read through the input once, to know what is to be done.

        Args:
            source: Seekable.
            records: Where the outcomes go.
            concurrency: Requests at once.
            justification: See ``AsyncDetectorClient.classify``.
            threshold: See ``AsyncDetectorClient.classify``.
            report: Called before the first row and after each one.

        Raises:
            RecordsError: The records are to another input.
        """
        self._source = source
        self._records = records
        self._options = f"justification={justification} threshold={threshold}"
        digests = {line: digest for line, digest, _ in read_lines(source, self._options)}
        self._answered_before = records.begin(digests)
        self.tally = Tally(total=len(digests), kept=len(self._answered_before))
        self._concurrency = concurrency
        self._justification = justification
        self._threshold = threshold
        self._report = report
        self._in_flight: dict[int, Row] = {}
        self._any_served = False
        self._num_unserved = 0
        self._last_unserved: Classification | DetectorError | None = None

    async def run(self, client: AsyncDetectorClient) -> None:
        """Classify what is to be done, and finish the records.

        Raises:
            StoppedEarly: The service refuses the key, or does not serve.
            RecordsError: The input changed during the run.
        """
        self._report(self.tally)
        await client.classify_each(
            self._examples(),
            self._take,
            concurrency=self._concurrency,
            justification=self._justification,
            threshold=self._threshold,
        )
        if self._num_unserved and not self._any_served:
            raise self._not_served()
        self._records.finish()

    def _examples(self) -> Iterator[Example]:
        num_begun = 0
        for line, digest, text in read_lines(self._source, self._options):
            if line in self._answered_before:
                continue
            try:
                row = read_row(line, digest, text)
            except RowError as error:
                self._add(bad_record(line, digest, error))
                continue
            self._in_flight[num_begun] = row
            num_begun += 1
            yield row.example

    def _take(self, index: int, outcome: Classification | DetectorError) -> None:
        row = self._in_flight.pop(index)
        if isinstance(outcome, Unauthorized):
            raise StoppedEarly(f"the service refuses the API key: {outcome}")
        self._add(record(row, outcome))
        if _was_served(outcome):
            self._any_served, self._num_unserved = True, 0
            return
        self._num_unserved += 1
        self._last_unserved = outcome
        # One row can kill its connection; a row on every connection in turn is the service.
        if self._num_unserved >= max(self._concurrency, _FEWEST_UNSERVED):
            raise self._not_served()

    def _not_served(self) -> StoppedEarly:
        return StoppedEarly(
            f"the service does not answer: {self._num_unserved} row(s) in turn failed, the last "
            f"with {type(self._last_unserved).__name__}: {self._last_unserved}"
        )

    def _add(self, row_record: dict[str, Any]) -> None:
        self._records.add(row_record)
        if "result" in row_record:
            self.tally.answered += 1
        else:
            self.tally.failed += 1
        self._report(self.tally)


def _was_served(outcome: Classification | DetectorError) -> bool:
    """Return whether the outcome says something about the row, not about the service."""
    if isinstance(outcome, InvalidRequest):
        return outcome.status not in (404, 405)
    return not isinstance(
        outcome, ConnectionFailed | DeadlineExhausted | Overloaded | ProtocolError
    )
