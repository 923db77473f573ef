"""The OpenAPI document is valid and complete, and the service keeps what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from support.app_client import PROVOKED, Provoked, fake_settings, make_app, running_app
from support.service_process import service_process

ROOT = Path(__file__).parents[3]

STATUSES = {
    ("/classify", "post"): {
        "200", "400", "401", "405", "413", "415", "422", "429", "500", "502", "503", "504",
    },
    ("/classify/batch", "post"): {
        "200", "400", "401", "405", "413", "415", "422", "500", "503", "504",
    },
    ("/livez", "get"): {"200", "401", "405", "500", "503"},
    ("/readyz", "get"): {"200", "401", "405", "500", "503"},
    ("/info", "get"): {"200", "401", "405", "500", "503"},
    ("/metrics", "get"): {"200", "401", "405", "500"},
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document as a client gets it."""
    return json.loads(json.dumps(make_app(fake_settings()).openapi()))


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def responses(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, _, operation in operations(document):
        for status, response in operation["responses"].items():
            yield f"{status} {path}", response


def check(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    """Check a value against a schema of the document, references included."""
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.Draft202012Validator(whole).validate(value)


def test_every_route_documents_its_statuses(document: dict[str, Any]) -> None:
    found = {
        (path, method): set(operation["responses"])
        for path, method, operation in operations(document)
    }
    assert found == STATUSES


def test_every_schema_is_a_schema_and_every_reference_leads_somewhere(
    document: dict[str, Any],
) -> None:
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    references = set(find_references(document))
    assert references
    assert references <= {f"#/components/schemas/{name}" for name in schemas}


def find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from find_references(part)
    elif isinstance(value, list):
        for part in value:
            yield from find_references(part)


def test_every_status_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    num_examples = 0
    for name, response in responses(document):
        [(media_type, content)] = response["content"].items()
        examples = [example["value"] for example in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        assert examples, name
        for example in examples:
            if media_type == "text/plain":
                assert isinstance(example, str)
            else:
                check(example, content["schema"], document)
                num_examples += 1
    assert num_examples > 35


def test_a_problem_s_example_has_the_status_that_it_stands_under(document: dict[str, Any]) -> None:
    for name, response in responses(document):
        if "application/problem+json" in response["content"]:
            examples = response["content"]["application/problem+json"]["examples"]
            statuses = {example["value"]["status"] for example in examples.values()}
            assert statuses == {int(name.split()[0])}


def test_the_examples_of_requests_fit_their_schemas(document: dict[str, Any]) -> None:
    for path in ("/classify", "/classify/batch"):
        body = document["paths"][path]["post"]["requestBody"]
        assert body["required"] is True
        schema = body["content"]["application/json"]["schema"]
        assert schema["examples"]
        for example in schema["examples"]:
            check(example, schema, document)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"response": 1},
        {"response": ""},
        {"response": "a", "x": 1},
        {"response": "a", "knowledge": []},
        {"response": "a", "knowledge": [1]},
        {"response": "a", "threshold": 1.5},
    ],
    ids=str,
)
def test_the_schema_of_a_request_refuses_what_the_service_refuses(
    body: dict[str, Any], document: dict[str, Any]
) -> None:
    schema = document["paths"]["/classify"]["post"]["requestBody"]["content"]["application/json"]
    with pytest.raises(jsonschema.ValidationError):
        check(body, schema["schema"], document)


def test_every_field_of_a_request_is_explained(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["ClassifyRequest"]["properties"]
    assert set(fields) == {"response", "question", "knowledge", "justification", "threshold"}
    assert all(field["description"] for field in fields.values())


def test_every_answer_documents_its_headers(document: dict[str, Any]) -> None:
    for name, response in responses(document):
        status = name.split()[0]
        expected = {"X-Request-ID"}
        expected |= {"Retry-After"} if status in ("429", "503") else set()
        expected |= {"WWW-Authenticate"} if status == "401" else set()
        expected |= {"Allow"} if status == "405" else set()
        expected |= {"Server-Timing"} if name == "200 /classify" else set()
        assert set(response["headers"]) == expected, name


@pytest.mark.parametrize("fault", PROVOKED.values(), ids=PROVOKED)
@pytest.mark.anyio
async def test_every_fault_that_can_be_provoked_is_documented(
    fault: Provoked, document: dict[str, Any]
) -> None:
    settings = fake_settings(**fault.settings)
    async with running_app(settings, fault.engine(settings)) as (client, _):
        answer = await fault.provoke(client)
    response = document["paths"]["/classify"]["post"]["responses"][str(fault.status)]
    [(media_type, content)] = response["content"].items()
    assert answer.headers["content-type"] == media_type
    check(answer.json(), content["schema"], document)
    assert {name.lower() for name in response["headers"]} <= set(answer.headers)
    documented = {example["value"]["type"] for example in content["examples"].values()}
    assert answer.json()["type"] in documented


def test_the_file_of_the_document_is_up_to_date(generated_docs: Path) -> None:
    kept = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
    generated = (generated_docs / "openapi.json").read_text(encoding="utf-8")
    assert kept == generated, "run: python docs/generate.py"


# A text can be too long or blank in ways that a schema does not express, hence 422 for a request
# that fits it; a batch with a bad item is answered, and the item has its problem, hence 200 for one
# that does not fit.
SCHEMATHESIS = """\
[checks]
positive_data_acceptance = { expected-statuses = [200, 422] }

[[operations]]
include-path = "/classify/batch"
checks = { negative_data_rejection = { expected-statuses = [200, 400, 401, 405, 413, 415, 422] } }
"""


def run_schemathesis(
    document: str, folder: Path, phases: str, *flags: str
) -> subprocess.CompletedProcess[str]:
    """Send generated requests.

    Args:
        document: Address or path of the OpenAPI document.
        folder: For what is written on the way.
        phases: What to generate: examples, coverage (each bound and kind in turn), fuzzing.
        flags: For ``schemathesis run``.
    """
    config = folder / "schemathesis.toml"
    config.write_text(SCHEMATHESIS, encoding="utf-8")
    return subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", f"--config-file={config}", "run", document,
            f"--phases={phases}", "--max-examples=25", "--seed=1",
            "--no-color", "--warnings=off", "--continue-on-failure", "--suppress-health-check=all",
            *flags,
        ],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def requests_by_status(http: httpx.Client) -> dict[str, float]:
    """Return HTTP status -> number of answers."""
    found: dict[str, float] = {}
    for line in http.get("/metrics").text.splitlines():
        if line.startswith("detector_http_requests_total{"):
            labels, _, value = line.rpartition(" ")
            status = labels.partition('status="')[2].partition('"')[0]
            found[status] = found.get(status, 0.0) + float(value)
    return found


def test_nothing_that_is_generated_meets_an_undocumented_answer(tmp_path: Path) -> None:
    with service_process(tmp_path, "--engine=fake", "--drain-grace-s=0") as service:
        document = f"{service.wait_ready()}/openapi.json"
        run = run_schemathesis(document, tmp_path, "examples,coverage,fuzzing")
        requests = requests_by_status(service.http)
        log = service.log
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Tested: 6" in run.stdout
    assert {"200", "400", "405", "415", "422"} <= set(requests)
    assert sum(requests.values()) > 150
    assert not {status for status in requests if status >= "500"}
    assert "Traceback" not in log


def test_nothing_that_is_generated_passes_without_a_key(tmp_path: Path) -> None:
    flags = ("--engine=fake", "--drain-grace-s=0", "--no-open-metrics", "--no-open-probes")
    with service_process(tmp_path, *flags, environ={"DETECTOR_API_KEYS": "k"}) as service:
        service.http.headers = httpx.Headers({"authorization": "Bearer k"})
        address = service.wait_ready()
        document = tmp_path / "openapi.json"
        document.write_bytes(service.http.get("/openapi.json").content)
        before = requests_by_status(service.http)
        # Sent without the key.
        flags = (f"--url={address}", "--exclude-checks=positive_data_acceptance")
        run = run_schemathesis(str(document), tmp_path, "coverage", *flags)
        after = requests_by_status(service.http)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Tested: 6" in run.stdout
    assert after["401"] > 50
    assert after["200"] == before["200"] + 1
