"""``python -m client`` against a real server: records, resuming, stopping."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from client.__main__ import Progress, main
from client.bulk import Tally

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)


@pytest.fixture
def rows(tmp_path):
    """Return the maker of an input file; its rows' responses are r0, r1, ..."""

    def make(num_rows, name="rows.jsonl"):
        path = tmp_path / name
        lines = [json.dumps({"response": f"r{n}", "id": n}) for n in range(num_rows)]
        path.write_text("".join(line + "\n" for line in lines))
        return path

    return make


@pytest.fixture
def out(tmp_path):
    """Return the path of the output."""
    return tmp_path / "out.jsonl"


def read(path):
    """Return the records of an output."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(stub_or_url, file, *options):
    """Run the command in this process; return its exit code."""
    url = getattr(stub_or_url, "url", stub_or_url)
    return main(["--url", url, str(file), *map(str, options)])


def start(stub, file, *options, **popen):
    """Start the command as a process of its own."""
    command = [sys.executable, "-m", "client", "--url", stub.url, str(file), *map(str, options)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What runs in a shell's background inherits an ignored Ctrl-C, which Python leaves ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **popen,
    )


def wait_for(condition):
    """Wait until a condition holds."""
    ends = time.monotonic() + 8
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.01)


def hold_from(stub, num_answered):
    """Answer so many requests at once; hold all later ones until the event is set."""
    release, plain = threading.Event(), stub.reply

    def reply(body):
        if len(stub.bodies) > num_answered:
            release.wait(10)
        return plain(body)

    stub.reply = reply
    return release


@pytest.fixture
def unused_url():
    """Return an address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_every_row_has_its_record_in_order(stub, rows, out, capsys):
    assert run(stub, rows(30), "--out", out) == 0
    records = read(out)
    assert [r["line"] for r in records] == list(range(1, 31))
    assert [r["id"] for r in records] == list(range(30))
    assert [r["result"]["justification"] for r in records] == [f"r{n}" for n in range(30)]
    assert not out.with_name("out.jsonl.partial").exists()
    assert "30 row(s): 0 answered before, 30 now, 0 failed, 0 left" in capsys.readouterr().err


def test_stdout_is_in_the_order_of_the_input(stub, rows, capfdbinary):
    plain = stub.reply

    def reply(body):
        time.sleep(0.1 if body["response"] == "r0" else 0)
        return plain(body)

    stub.reply = reply
    assert run(stub, rows(10)) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert [json.loads(line)["line"] for line in lines] == list(range(1, 11))


def test_stdin_is_read(stub, out, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b'{"response": "a"}\n\n{"response": "b"}'))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run(stub, "-", "--out", out) == 0
    assert [(r["line"], r["result"]["justification"]) for r in read(out)] == [(1, "a"), (3, "b")]


def test_options_and_key_are_sent(stub, rows, out, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame\n")
    options = ["--threshold", "0.3", "--no-justification", "--api-key-env", "MY_KEY"]
    assert run(stub, rows(1), "--out", out, *options) == 0
    assert stub.bodies == [{"response": "r0", "justification": False, "threshold": 0.3}]
    assert stub.headers[0]["Authorization"] == "Bearer sesame"


BAD_LINES = [
    (b"{", "not valid JSON: expecting property name enclosed in double quotes, column 2"),
    (b"\xff", "not UTF-8"),
    (b"3", "must be a JSON object"),
    (b'{"response": 3}', "response must be a string"),
    (b'{"question": "q"}', "response must be a string"),
    (b'{"response": "r", "question": 3}', "question must be a string"),
    (b'{"response": "r", "knowledge": ["k", 3]}', "knowledge must be a string or an array"),
    (b'{"response": "r", "knowledge": {}}', "knowledge must be a string or an array"),
    (b'{"response": "r", "x": NaN}', "out of bounds"),
    (b"[" * 100_000, "out of bounds"),
]


def test_bad_lines_become_problems_that_name_the_line(stub, tmp_path, out):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join([*(line for line, _ in BAD_LINES), b'{"response": "good"}']))
    assert run(stub, file, "--out", out) == 1
    *bad, good = read(out)
    assert good["result"]["justification"] == "good"
    for number, ((_, message), record) in enumerate(zip(BAD_LINES, bad, strict=True), 1):
        assert record["line"] == number
        assert record["problem"]["type"] == "urn:hallucination-detector:client:bad-row"
        assert record["problem"]["detail"].startswith(f"line {number}: ")
        assert message in record["problem"]["detail"]


def test_all_other_members_are_carried_over(stub, tmp_path, out):
    row = {
        "response": "\ud800",
        "knowledge": "k",
        "id": None,
        "label": "x",
        "line": 9,
        "r\udfff": 1,
    }
    file = tmp_path / "rows.jsonl"
    file.write_text("\ufeff" + json.dumps(row) + "\r\n", encoding="utf-8")
    assert run(stub, file, "--out", out) == 0
    (record,) = read(out)
    assert (record["line"], record["id"]) == (1, None)
    assert record["row"] == {"label": "x", "line": 9, "r\udfff": 1}
    assert record["result"]["justification"] == "\ud800"


def test_failed_rows_are_tried_again_and_replaced(stub, rows, out, make_problem):
    plain = stub.reply
    stub.reply = lambda body: (
        (422, {}, make_problem(422, "invalid-request", num_tokens=9))
        if body["response"] in ("r2", "r4")
        else plain(body)
    )
    assert run(stub, rows(6), "--out", out) == 1
    assert [r["line"] for r in read(out) if "problem" in r] == [3, 5]
    assert read(out)[2]["problem"]["num_tokens"] == 9
    stub.reply = plain
    assert run(stub, rows(6), "--out", out) == 0
    assert [r["result"]["justification"] for r in read(out)] == [f"r{n}" for n in range(6)]
    assert sorted(stub.responses[6:]) == ["r2", "r4"]


def test_a_second_run_asks_nothing(stub, rows, out):
    run(stub, rows(3), "--out", out)
    before = out.read_bytes()
    assert run(stub, rows(3), "--out", out) == 0
    assert len(stub.bodies) == 3
    assert out.read_bytes() == before


def test_changed_and_new_rows_are_classified_and_the_rest_is_kept(stub, rows, out):
    file = rows(4)
    run(stub, file, "--out", out)
    file.write_text(file.read_text().replace("r1", "changed") + '{"response": "new"}\n')
    assert run(stub, file, "--out", out) == 0
    assert [r["result"]["justification"] for r in read(out)] == ["r0", "changed", "r2", "r3", "new"]
    assert sorted(stub.responses[4:]) == ["changed", "new"]


def test_answers_to_something_else_are_not_overwritten(stub, rows, out, tmp_path, capsys):
    run(stub, rows(3), "--out", out)
    before = out.read_bytes()
    other = tmp_path / "other.jsonl"
    other.write_text('{"response": "other"}\n')
    assert run(stub, other, "--out", out) == 2
    assert run(stub, rows(3), "--out", out, "--threshold", "0.9") == 2
    assert "choose another --out" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert not out.with_name("out.jsonl.partial").exists()


@pytest.mark.parametrize("content", ["precious text", '{"a": 1}\n', '[1]\n{"line": 1}\n'])
def test_a_file_that_is_no_output_is_left_alone(stub, rows, out, content, capsys):
    out.write_text(content)
    assert run(stub, rows(3), "--out", out) == 2
    assert "is no record" in capsys.readouterr().err
    assert out.read_text() == content


def test_the_input_is_never_the_output(stub, rows, capsys):
    file = rows(2)
    assert run(stub, file, "--out", file) == 2
    assert "the input itself" in capsys.readouterr().err


@pytest.mark.parametrize("tail", [b'{"line": 4, "dig', b'{"line": 4}', b"\x00\x00"])
def test_a_half_written_last_line_is_cut(stub, rows, out, tail):
    file = rows(4)
    run(stub, file, "--out", out)
    partial = out.with_name("out.jsonl.partial")
    partial.write_bytes(b"".join(out.read_bytes().splitlines(True)[:3]) + tail)
    out.unlink()
    assert run(stub, file, "--out", out) == 0
    assert [r["line"] for r in read(out)] == [1, 2, 3, 4]
    assert stub.responses[4:] == ["r3"]


def test_a_killed_run_is_resumed(stub, rows, out):
    file, partial = rows(12), out.with_name("out.jsonl.partial")
    release = hold_from(stub, 5)
    process = start(stub, file, "--out", out, "--concurrency", "2")
    wait_for(lambda: partial.exists() and partial.read_bytes().count(b"\n") == 5)
    process.kill()
    process.communicate()
    release.set()
    assert not out.exists()
    num_asked = len(stub.bodies)
    assert run(stub, file, "--out", out) == 0
    assert [r["result"]["justification"] for r in read(out)] == [f"r{n}" for n in range(12)]
    assert len(stub.bodies) - num_asked == 7
    assert not partial.exists()


def test_ctrl_c_keeps_what_is_done(stub, rows, out):
    partial = out.with_name("out.jsonl.partial")
    release = hold_from(stub, 5)
    process = start(stub, rows(12), "--out", out, "--concurrency", "2")
    wait_for(lambda: partial.exists() and partial.read_bytes().count(b"\n") == 5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    release.set()
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert b"5 now, 0 failed, 7 left" in stderr
    # Of two requests that are sent at once, either may come first.
    assert len({r["line"] for r in read(partial)}) == 5


def test_two_runs_do_not_write_to_one_file(stub, rows, out, capsys):
    release = hold_from(stub, 0)
    file, partial = rows(3), out.with_name("out.jsonl.partial")
    with start(stub, file, "--out", out) as process:
        wait_for(lambda: stub.bodies)
        assert run(stub, file, "--out", out) == 2
        assert "another run is writing" in capsys.readouterr().err
        assert partial.exists()
        release.set()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(read(out)) == 3


def test_a_reader_that_leaves_ends_the_run(stub, rows):
    release = hold_from(stub, 0)
    with start(stub, rows(20)) as process:
        wait_for(lambda: stub.bodies)
        process.stdout.close()
        release.set()
        assert process.wait(5) == 2
        assert b"Traceback" not in process.stderr.read()


def test_overload_is_waited_out(stub, rows, out, make_problem):
    plain, refused = stub.reply, []

    def reply(body):
        if body["response"] == "r1" and not refused:
            refused.append(True)
            return 503, {"Retry-After": "0.2"}, make_problem(503, "overloaded")
        return plain(body)

    stub.reply = reply
    assert run(stub, rows(3), "--out", out) == 0
    assert sorted(stub.responses) == ["r0", "r1", "r1", "r2"]


def test_a_refused_key_stops_at_once(stub, rows, out, make_problem, capsys):
    stub.reply = lambda body: (401, {}, make_problem(401, "unauthorized", "send a valid API key"))
    assert run(stub, rows(500), "--out", out) == 2
    assert len(stub.bodies) <= 16
    assert "refuses the API key" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("num_rows", [1, 500])
def test_html_for_answers_stops_early_and_is_no_verdict(stub, rows, out, num_rows, capsys):
    stub.reply = lambda body: (200, {}, b"<html>Welcome</html>")
    assert run(stub, rows(num_rows), "--out", out) == 2
    assert len(stub.bodies) <= 16
    assert "text/html, not application/json" in capsys.readouterr().err


def test_nothing_there_stops_early(rows, out, unused_url, capsys):
    assert run(unused_url, rows(500), "--out", out, "--deadline", "0.3") == 2
    assert "does not answer" in capsys.readouterr().err


def test_a_service_that_goes_away_stops_the_run_and_the_next_one_goes_on(stub, rows, out, capsys):
    plain = stub.reply
    stub.reply = lambda body: plain(body) if len(stub.bodies) <= 20 else None
    options = ["--out", out, "--deadline", "0.3"]
    assert run(stub, rows(100), *options) == 2
    assert "does not answer" in capsys.readouterr().err
    stub.reply = plain
    assert run(stub, rows(100), "--out", out) == 0
    assert [r["result"]["justification"] for r in read(out)] == [f"r{n}" for n in range(100)]


def test_one_row_that_kills_its_connection_fails_alone(stub, rows, out):
    plain = stub.reply
    stub.reply = lambda body: None if body["response"] == "r3" else plain(body)
    assert run(stub, rows(40), "--out", out, "--deadline", "1.5") == 1
    (failed,) = [r for r in read(out) if "problem" in r]
    assert failed["line"] == 4
    assert failed["problem"]["type"].startswith("urn:hallucination-detector:client:")


def test_unserved_rows_count_only_in_turn(stub, rows, out):
    plain, unserved = stub.reply, ("r0", "r1", "r3", "r4", "r6", "r7")
    stub.reply = lambda body: (200, {}, b"<html>") if body["response"] in unserved else plain(body)
    assert run(stub, rows(20), "--out", out, "--concurrency", "1") == 1
    assert [r["line"] for r in read(out) if "problem" in r] == [1, 2, 4, 5, 7, 8]


def test_readiness_is_waited_for(stub, rows, out, capsys):
    stub.is_ready = False
    assert run(stub, rows(1), "--out", out, "--wait-ready", "0.3") == 2
    assert "load: x" in capsys.readouterr().err
    stub.is_ready = True
    assert run(stub, rows(1), "--out", out, "--wait-ready", "5") == 0


def test_an_input_that_changes_meanwhile_loses_no_row(stub, tmp_path, out, capsys):
    file, plain = tmp_path / "rows.jsonl", stub.reply
    # The second row stands beyond what is read ahead.
    text = '{"response": "first"}' + "\n" * 400_000 + '{"response": "second"}\n'

    def reply(body):
        file.write_text(text.replace("second", "SECOND"))
        return plain(body)

    stub.reply = reply
    file.write_text(text)
    assert run(stub, file, "--out", out, "--concurrency", "1") == 2
    assert "line 400001 of the input changed during the run" in capsys.readouterr().err
    assert not out.exists()
    stub.reply = plain
    assert run(stub, file, "--out", out) == 0
    assert [r["result"]["justification"] for r in read(out)] == ["first", "SECOND"]
    assert stub.responses == ["first", "SECOND"]


@pytest.mark.parametrize(
    "options",
    [
        ["--threshold", "1.5"],
        ["--threshold", "nan"],
        ["--concurrency", "0"],
        ["--deadline", "0"],
        ["--api-key-env", "NOT_SET_ANYWHERE"],
    ],
)
def test_wrong_arguments_are_refused(rows, options, capsys):
    with pytest.raises(SystemExit) as caught:
        run("http://127.0.0.1:9", rows(1), *options)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host"])
def test_a_wrong_address_is_refused(rows, url, capsys):
    with pytest.raises(SystemExit) as caught:
        run(url, rows(1))
    assert caught.value.code == 2


def test_files_that_cannot_be_opened_are_named(stub, rows, tmp_path, capsys):
    assert run(stub, tmp_path / "none.jsonl") == 2
    assert run(stub, rows(1), "--out", tmp_path / "none" / "out.jsonl") == 2
    assert run(stub, rows(1), "--out", tmp_path) == 2
    err = capsys.readouterr().err
    assert "none.jsonl" in err
    assert "is not a file" in err


def test_a_pipe_is_an_input_too(stub, out, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"response": "a"}\n',))
    writer.start()
    assert run(stub, pipe, "--out", out) == 0
    writer.join()
    assert len(read(out)) == 1


def test_without_a_terminal_a_line_comes_every_so_often(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress()
    for answered in range(25):
        progress(Tally(total=100, kept=10, answered=answered, failed=1))
        now[0] += 1.0
    assert capsys.readouterr().err == "21/100 rows, 1 failed\n31/100 rows, 1 failed\n"


def test_on_a_terminal_there_is_a_bar(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress()
    progress(Tally(total=4, kept=1))
    progress(Tally(total=4, kept=1, answered=2, failed=1))
    progress.close()
    assert "4/4" in terminal.getvalue()
