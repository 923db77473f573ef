from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from contract.labels import Label
from contract.prompt import OUTPUT_BUDGET_TOKENS
from training.config import ModelConfig, RewardConfig, RlConfig, RunConfig, WarmstartConfig
from training.config_file import load_config
from training.data_config import DataConfig, SetConfig
from training.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[3] / "training" / "configs"
FILES = sorted(CONFIGS.rglob("*.toml"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"

SMALL = """
name = "small"
[[data.sets]]
name = "made"
kind = "file"
file = "made.jsonl"
columns = { response = "answer", label = "verdict" }
labels = { yes = "correct", no = "hallucination" }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def fault_of(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_configuration_of_the_repository_loads(path: Path):
    assert load_config(path).name.startswith(path.relative_to(CONFIGS).with_suffix("").parts[0])


def test_runs_of_two_files_do_not_meet_in_one_folder():
    assert len({load_config(path).name for path in FILES}) == len(FILES)


def test_both_models_have_the_four_experiments():
    experiments = {"qa-knowledge", "qa-no-knowledge", "qa-paired", "summarization"}
    for model in ("qwen2.5-3b", "qwen3-4b"):
        assert {path.stem for path in (CONFIGS / model).glob("*.toml")} == experiments


QWEN = [path for path in FILES if path.parent.name.startswith("qwen")]
GUIDE = CONFIGS.parents[1] / "docs" / "training.md"
CARDS = r"192 GB \(MI300X\) ([\d.]+), +80 GB \(H100\) ([\d.]+), +24 GB \(RTX 4090\) ([\d.]+)"


@pytest.mark.parametrize("path", QWEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_configuration_for_a_gpu_says_what_it_takes_on_three_cards(path: Path):
    text = path.read_text(encoding="utf-8")
    sizes = re.findall(rf"(?m)^# GB at most: +{CARDS}$", text)
    times = re.findall(rf"(?m)^# Hours of the run: {CARDS}$", text)
    assert (len(sizes), len(times)) == (1, 1)
    assert all(float(size) < card for size, card in zip(sizes[0], (192, 80, 24), strict=True))
    # The guide's table has the same figures.
    cells = [f"{size}, {time}" for size, time in zip(sizes[0], times[0], strict=True)]
    row = f"| `{path.parent.name}/{path.stem}` | {' | '.join(cells)} |"
    assert row in GUIDE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", QWEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_a_24_gb_card_needs_can_be_set(path: Path):
    flags = re.findall(r"--set (\S+)", path.read_text(encoding="utf-8"))
    config = load_config(path, flags)
    assert (config.model.dtype, config.rl.rollouts) == ("bfloat16", "hf")
    assert config.rl.prompts_per_step == load_config(path).rl.prompts_per_step // 4
    assert config.evaluation.batch_size == 16


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_no_file_has_replies_drawn_for_every_row(path: Path):
    """Treated, HaluEval QA has about 49,000 of them: eight replies each take eight hours."""
    warmstart = load_config(path).warmstart
    if warmstart.kind in ("self-distilled", "relabelled"):
        assert warmstart.num_records is not None
        assert warmstart.num_records <= 2000


def test_the_model_under_a_research_licence_is_not_exported_under_another():
    for path in (CONFIGS / "qwen2.5-3b").glob("*.toml"):
        assert load_config(path).export.license == "other"
        assert "for research only" in path.read_text(encoding="utf-8")


def test_what_a_file_leaves_out_has_its_default(small: Path):
    config = load_config(small)
    assert config.seed == 1
    assert config.model.name == "embedded"
    assert config.rl.num_generations == 8
    assert config.data.sets[0].labels == {"yes": Label.CORRECT, "no": Label.HALLUCINATION}


def test_a_loaded_configuration_cannot_be_changed(small: Path):
    config = load_config(small)
    with pytest.raises(ValidationError, match="frozen"):
        config.rl.max_steps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("rl.max_steps=7", lambda c: c.rl.max_steps == 7),
        ("rl.learning_rate=1", lambda c: c.rl.learning_rate == 1.0),
        ("rl.algorithm=gspo", lambda c: c.rl.algorithm == "gspo"),
        ('name="quoted"', lambda c: c.name == "quoted"),
        ("data.treatment.is_on=false", lambda c: not c.data.treatment.is_on),
        ('report_to=["jsonl", "trackio"]', lambda c: c.report_to == ("jsonl", "trackio")),
        ("data.sets.made.max_pairs=5", lambda c: c.data.sets[0].max_pairs == 5),
        ("data.sets.0.max_pairs=6", lambda c: c.data.sets[0].max_pairs == 6),
        (f"model.revision={COMMIT}", lambda c: c.model.revision == COMMIT),
    ],
)
def test_set_changes_one_value(small: Path, override: str, read):
    overrides = [override]
    if "revision" in override:
        overrides.append("model.name=org/repo")
    assert read(load_config(small, overrides))


def test_the_later_of_two_overrides_wins(small: Path):
    assert load_config(small, ["seed=2", "seed=3"]).seed == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rl.max_step=7", "rl.max_step (from --set): is unknown; did you mean max_steps?"),
        ("data.sets.made.colums.x=a", "data.sets.made.colums (from --set): is unknown; did you"),
        ("modle.name=tiny", "modle (from --set): is unknown; did you mean model?"),
        ("rl.stops.zzz=1", "known: starved_share, starved_reward"),
        ("rl.max_steps=many", "rl.max_steps (from --set): input should be a valid integer"),
        ("rl.max_steps=true", "rl.max_steps (from --set): input should be a valid integer"),
        ('rl.max_steps="8"', "rl.max_steps (from --set): input should be a valid integer"),
        ("rl.learning_rate=nan", "rl.learning_rate (from --set)"),
        ("data.sets.other.max_pairs=1", "there is no set 'other', only made"),
        ("seed.x=1", "--set seed.x: seed is a value or a list, not a section"),
        ("rl.max_steps", "--set 'rl.max_steps' is not KEY=VALUE"),
        ("rl..beta=1", "--set 'rl..beta=1' is not KEY=VALUE"),
        ("rl.max_completion_tokens=97", "less than or equal to 96, and not 97"),
        ("name=a/b", "name (from --set): string should match pattern"),
    ],
)
def test_a_wrong_override_is_named_with_its_remedy(small: Path, override: str, message: str):
    small.write_text("seed = 1\n" + SMALL, encoding="utf-8")
    assert message in fault_of(small, override)


def test_all_faults_of_a_file_are_named_at_once(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text('seed = "one"\n[rl]\nlearning_rte = 1e-5\n[data]\nsets = []\n', "utf-8")
    fault = fault_of(path)
    assert str(path) in fault
    assert "name: is missing and has no default" in fault
    assert "seed: input should be a valid integer, and not 'one'" in fault
    assert "rl.learning_rte: is unknown; did you mean learning_rate?" in fault
    assert "data.sets: " in fault


@pytest.mark.parametrize("text", [b"name = ", b"name = '\xff'"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: bytes):
    path = tmp_path / "broken.toml"
    path.write_bytes(text)
    assert f"{path} cannot be read as TOML" in fault_of(path)


def test_a_missing_file_is_named(tmp_path: Path):
    assert f"there is no {tmp_path / 'x.toml'}" in fault_of(tmp_path / "x.toml")


def test_a_model_of_the_hub_needs_a_commit_and_the_message_says_where_it_stands(small: Path):
    fault = fault_of(small, "model.name=org/repo")
    assert "git ls-remote https://huggingface.co/org/repo HEAD" in fault
    assert fault_of(small, "model.name=org/repo", "model.revision=main")


def test_a_data_set_of_the_hub_needs_a_commit():
    with pytest.raises(ValidationError, match=r"ls-remote https://huggingface\.co/datasets/o/r"):
        SetConfig(name="s", kind="hub", repo="o/r", split="data")


@pytest.mark.parametrize("name", ["embedded", "tiny", "./weights", "../a/b", "/srv/weights"])
def test_folders_and_built_in_models_have_no_revision(name: str):
    assert not ModelConfig(name=name).is_on_hub
    with pytest.raises(ValidationError, match="revision belongs to"):
        ModelConfig(name=name, revision=COMMIT)


def test_a_bare_name_is_no_model():
    with pytest.raises(ValidationError, match=r"written with \./ in front"):
        ModelConfig(name="smollm")


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("folder", "file"),
        ("hub", "repo and split"),
        ("file", "file and columns"),
        ("made", "max_pairs"),
    ],
)
def test_each_kind_of_set_says_what_it_needs(kind, needed: str):
    with pytest.raises(ValidationError, match=f"needs {needed}"):
        SetConfig(name="s", kind=kind)


def test_nothing_readable_must_never_pay_more_than_a_wrong_class():
    with pytest.raises(ValidationError, match="saying nothing readable pays"):
        RewardConfig(wrong=-1.0)
    with pytest.raises(ValidationError, match="saying nothing readable pays"):
        RewardConfig(unreadable=0.0)


def test_replies_in_training_fit_the_budget_of_the_service():
    assert RlConfig().max_completion_tokens == OUTPUT_BUDGET_TOKENS


def test_a_vllm_server_needs_its_address():
    with pytest.raises(ValidationError, match="needs vllm_server_url"):
        RlConfig(rollouts="vllm-server")


def make_set(name: str) -> SetConfig:
    return SetConfig(name=name, kind="folder", file=f"{name}.jsonl")


def test_sets_have_names_of_their_own():
    with pytest.raises(ValidationError, match="two sets are named a"):
        DataConfig(sets=(make_set("a"), make_set("b"), make_set("a")))


def test_something_is_left_to_train_on():
    with pytest.raises(ValidationError, match=r"hold out 1\.2 of the pairs"):
        DataConfig(sets=(make_set("a"),), validation_fraction=0.6, test_fraction=0.6)


def test_only_sets_that_are_there_are_evaluated():
    with pytest.raises(ValidationError, match=r"evaluation\.sets names b, which is not in"):
        RunConfig(name="r", data={"sets": [make_set("a")]}, evaluation={"sets": ["b"]})


def test_no_warm_start_goes_on_from_no_adapter():
    with pytest.raises(ValidationError, match=r'kind = "none" trains no adapter to go on from'):
        WarmstartConfig(kind="none", adapter=Path("runs/a/warmstart/adapter"))


def test_relabelling_needs_an_adapter_that_writes_replies():
    with pytest.raises(ValidationError, match="set adapter to that of a finished templated warm"):
        WarmstartConfig(kind="relabelled")
    adapter = Path("runs/a/warmstart/adapter")
    assert WarmstartConfig(kind="relabelled", adapter=adapter).adapter == adapter


def test_one_row_of_a_pair_would_teach_one_class():
    with pytest.raises(ValidationError, match="rows_per_pair"):
        SetConfig(name="a", kind="folder", file="a.jsonl", rows_per_pair=1)


def test_made_rows_are_nothing_without_their_knowledge():
    made = SetConfig(name="worlds", kind="made", max_pairs=10)
    assert DataConfig(sets=(made,), mode="paired").sets == (made,)
    with pytest.raises(ValidationError, match='"no-knowledge" leaves nothing of worlds'):
        DataConfig(sets=(make_set("a"), made), mode="no-knowledge")
