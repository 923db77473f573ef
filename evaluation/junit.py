"""JUnit XML, which CI shows as tests: what it cannot hold is replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One test case.

    Attributes:
        name: Unique in its suite.
        fault: Kind of what is not passed; None where it is.
        text: What was seen.
    """

    name: str
    fault: Literal["failure", "error", "skipped"] | None
    text: str


def to_junit(title: str, results: Sequence[SuiteCase]) -> bytes:
    """Return a suite of test cases of the class ``drift``.

    Example:
        >>> print(to_junit("Gate", [SuiteCase("power", "error", "too few")]).decode())
        <?xml version='1.0' encoding='utf-8'?>
        <testsuite name="Gate" tests="1" failures="0" errors="1" skipped="0"><testcase \
classname="drift" name="power"><error message="too few" /></testcase></testsuite>
    """
    faults = [result.fault for result in results]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(title),
        tests=str(len(results)),
        failures=str(faults.count("failure")),
        errors=str(faults.count("error")),
        skipped=str(faults.count("skipped")),
    )
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname="drift", name=_xml(result.name))
        if result.fault is None:
            ElementTree.SubElement(case, "system-out").text = _xml(result.text)
        else:
            ElementTree.SubElement(case, result.fault, message=_xml(result.text))
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
