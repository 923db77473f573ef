"""Settings from the environment and the command line: bounded, complete, and never leaked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_settings import CliApp

from service.errors import StartError
from service.settings import Settings, check_environment, default_cache_dir

ROOT = Path(__file__).parents[3]


def from_flags(*flags: str) -> Settings:
    return CliApp.run(Settings, cli_args=list(flags))


def test_the_defaults_are_those_of_a_laptop() -> None:
    settings = Settings()
    assert settings.model == "embedded"
    assert settings.engine == "vllm"
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.max_output_tokens == 96
    assert settings.api_keys is None
    assert not settings.allow_missing_contract


def test_the_cache_folder_follows_the_user_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_cache_dir() == Path("/elsewhere/hallucination-detector")


def test_a_known_environment_passes() -> None:
    check_environment(
        {
            "DETECTOR_MODEL": "m",
            "detector_port": "1",
            "PATH": "/",
            "XDETECTOR_A": "",
            "DETECTOR": "",
        }
    )


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"DETECTOR_MODLE": "m"}, "DETECTOR_MODLE"),
        ({"DETECTOR_B": "", "DETECTOR_A": "", "DETECTOR_MODEL": "m"}, "DETECTOR_A, DETECTOR_B"),
        ({"detector_prot": "1"}, "detector_prot"),
        ({"DETECTOR_": "x"}, "DETECTOR_"),
    ],
    ids=["misspelt", "two", "lower_case", "empty"],
)
def test_an_unknown_variable_stops_the_start_by_its_name(
    environ: dict[str, str], named: str
) -> None:
    with pytest.raises(StartError) as caught:
        check_environment(environ)
    assert str(caught.value) == (
        f"unknown setting in the environment: {named}. "
        "`python -m service --help` lists all settings."
    )


def test_the_process_s_own_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_MAX_INFLIGHT", "3")
    with pytest.raises(StartError, match="DETECTOR_MAX_INFLIGHT"):
        check_environment()


def test_a_flag_goes_before_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_PORT", "8001")
    monkeypatch.setenv("DETECTOR_MAX_IN_FLIGHT", "7")
    settings = from_flags("--port", "8002")
    assert (settings.port, settings.max_in_flight) == (8002, 7)


def test_flags_for_true_and_false_stand_alone() -> None:
    settings = from_flags("--log-json", "--no-open-metrics")
    assert (settings.log_json, settings.open_metrics) == (True, False)


# Setting -> its value as text, and as it is afterwards; for every setting there is.
VALUES: dict[str, tuple[str, Any]] = {
    "model": ("org/repo@main", "org/repo@main"),
    "engine": ("fake", "fake"),
    "allow_missing_contract": ("true", True),
    "cache_dir": ("/cache", "/cache"),
    "hub_endpoint": ("https://hub.example", "https://hub.example"),
    "hub_token": ("hf_x", "**********"),
    "hub_attempts": ("3", 3),
    "offline": ("true", True),
    "dtype": ("float32", "float32"),
    "max_model_len": ("2048", 2048),
    "max_output_tokens": ("64", 64),
    "max_num_seqs": ("8", 8),
    "max_num_batched_tokens": ("1024", 1024),
    "kv_cache_bytes": ("67108864", 67_108_864),
    "block_size_tokens": ("64", 64),
    "cpu_threads": ("3", 3),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("8001", 8001),
    "max_body_bytes": ("2048", 2048),
    "body_timeout_s": ("2.5", 2.5),
    "max_json_depth": ("8", 8),
    "max_batch_items": ("9", 9),
    "api_keys": ("a,b", "**********"),
    "api_keys_file": ("/keys", "/keys"),
    "open_metrics": ("false", False),
    "open_probes": ("false", False),
    "max_in_flight": ("5", 5),
    "max_queued_tokens": ("50000", 50_000),
    "rate_limit_per_minute": ("60", 60),
    "request_timeout_s": ("1.5", 1.5),
    "stuck_after_s": ("2.5", 2.5),
    "drain_grace_s": ("0", 0.0),
    "drain_timeout_s": ("3.5", 3.5),
    "log_level": ("debug", "debug"),
    "log_json": ("true", True),
    "otlp_endpoint": ("http://collector:4318", "http://collector:4318"),
    "window_verdicts": ("50", 50),
    "window_min_verdicts": ("20", 20),
    "fake_latency_s": ("0.5", 0.5),
    "fake_start_s": ("0.5", 0.5),
    "fake_output_tokens": ("12", 12),
    "fake_fault": ("error", "error"),
    "fake_fault_rate": ("0.5", 0.5),
}


def test_every_setting_is_tried() -> None:
    assert set(VALUES) == set(Settings.model_fields)


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_has_the_same_name_in_the_environment_and_as_a_flag(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = VALUES[name]
    assert Settings().redacted()[name] != value
    flag = name.replace("_", "-")
    by_flag = from_flags(
        {"true": f"--{flag}", "false": f"--no-{flag}"}.get(text, f"--{flag}={text}")
    )
    monkeypatch.setenv(f"DETECTOR_{name.upper()}", text)
    by_variable = Settings()
    assert by_flag == by_variable
    assert by_variable.redacted()[name] == value


def test_an_unknown_flag_stops_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        from_flags("--prot", "8001")
    assert caught.value.code == 2
    assert "--prot" in capsys.readouterr().err


def test_the_help_names_every_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        from_flags("--help")
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: python -m service ")
    assert not [n for n in VALUES if f"--{n.replace('_', '-')} " not in shown.replace(",", " ")]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("hub_attempts", 1, 20),
        ("max_output_tokens", 4, 1024),
        ("max_num_seqs", 1, 1024),
        ("max_num_batched_tokens", 64, 131_072),
        ("kv_cache_bytes", 67_108_864, None),
        ("cpu_threads", 1, 1024),
        ("port", 0, 65_535),
        ("max_body_bytes", 1024, 67_108_864),
        ("max_json_depth", 4, 200),
        ("max_batch_items", 1, 1024),
        ("max_in_flight", 1, 100_000),
        ("rate_limit_per_minute", 1, None),
        ("request_timeout_s", 0.001, 3600),
        ("stuck_after_s", 0.001, 3600),
        ("drain_grace_s", 0, 300),
        ("drain_timeout_s", 0.001, 600),
        ("window_verdicts", 10, 100_000),
        ("window_min_verdicts", 10, 100_000),
        ("fake_latency_s", 0, 600),
        ("fake_start_s", 0, 600),
        ("fake_output_tokens", 4, 1024),
        ("fake_fault_rate", 0, 1),
    ],
)
def test_a_setting_has_bounds(name: str, low: float, high: float | None) -> None:
    assert Settings(**{name: low}).model_dump()[name] == low
    outside = [low - 1]
    if high is not None:
        assert Settings(**{name: high}).model_dump()[name] == high
        outside.append(high + 1)
    for value in outside:
        with pytest.raises(ValidationError) as caught:
            Settings(**{name: value})
        assert [fault["loc"] for fault in caught.value.errors()] == [(name,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", ""),
        ("engine", "transformers"),
        ("dtype", "int8"),
        ("block_size_tokens", 20),
        ("max_model_len", 511),
        ("max_model_len", 131_073),
        ("max_queued_tokens", 511),
        ("hub_endpoint", "hub.example"),
        ("hub_endpoint", "https://a b"),
        ("otlp_endpoint", "collector:4317"),
        ("request_timeout_s", 0),
        ("request_timeout_s", float("nan")),
        ("stuck_after_s", float("inf")),
        ("log_level", "loud"),
        ("fake_fault", "sometimes"),
        ("port", "http"),
        ("nothing_of_ours", 1),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: value})
    assert [fault["loc"] for fault in caught.value.errors()] == [(name,)]


def test_a_prompt_budget_too_small_names_both_settings() -> None:
    assert Settings(max_model_len=512, max_output_tokens=256)
    with pytest.raises(ValidationError) as caught:
        Settings(max_model_len=512, max_output_tokens=257)
    assert (
        "max_model_len 512 leaves 255 tokens beside max_output_tokens 257, the instructions alone "
        "need about 140: raise max_model_len or lower max_output_tokens"
    ) in str(caught.value)


def test_a_queue_too_small_for_one_input_names_both_settings() -> None:
    assert Settings(max_model_len=2048, max_queued_tokens=2048)
    with pytest.raises(ValidationError) as caught:
        Settings(max_model_len=2048, max_queued_tokens=2047)
    assert (
        "max_queued_tokens 2047 is below max_model_len 2048, so the longest allowed input could "
        "never be accepted: raise max_queued_tokens"
    ) in str(caught.value)


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.port = 1


def test_secrets_are_starred_wherever_settings_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETECTOR_API_KEYS", "key-of-alice,key-of-bob")
    settings = Settings(hub_token="hf_secret")
    for shown in (repr(settings), str(settings), json.dumps(settings.redacted())):
        assert "key-of" not in shown
        assert "hf_secret" not in shown
        assert "**********" in shown
    assert settings.api_keys is not None
    assert settings.api_keys.get_secret_value() == "key-of-alice,key-of-bob"


def test_the_settings_are_shown_as_json() -> None:
    shown = json.loads(json.dumps(Settings(cache_dir=Path("/cache"), port=8001).redacted()))
    assert (shown["cache_dir"], shown["port"], shown["api_keys"]) == ("/cache", 8001, None)
    assert set(shown) == set(VALUES)


def test_every_setting_is_explained() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_the_page_of_settings_is_up_to_date(generated_docs: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    generated = (generated_docs / "configuration.md").read_text(encoding="utf-8")
    assert page == generated, "run: python docs/generate.py"


def test_the_page_of_settings_has_a_row_for_each() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `DETECTOR_")]
    assert len(rows) == len(VALUES)
    assert (
        "| `DETECTOR_REQUEST_TIMEOUT_S` | `--request-timeout-s` | `60.0` "
        "| a number above 0 to 3600 | Seconds after which an accepted item is given up. |"
    ) in rows
