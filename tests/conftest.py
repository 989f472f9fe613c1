"""Shared settings: one thread a test, and hypothesis without deadlines (the machines are noisy).

A second thread does not speed up these small problems, and it slows down other workers (`pytest -n`). NumPy and torch
read the variables at import; workers and subprocesses inherit them. GENLABEL_EXAMPLES sets the number of examples;
without it those of tests/fuzz are the same each time.
"""

import gc
import json
import multiprocessing.connection
import os
import re
import shutil
import socket
import subprocess
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from traceback import format_exc
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

for library in ("OMP", "MKL", "OPENBLAS"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

EXAMPLES = int(os.environ.get("GENLABEL_EXAMPLES", "24"))
settings.register_profile(
    "genlabel", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("genlabel")


def pytest_collection_finish() -> None:
    """Exclude objects that exist before the first test from garbage collection."""
    gc.collect()
    gc.freeze()


@contextmanager
def _refuse_to_wait() -> Iterator[None]:
    """Make every synchronization with the GPU inside the context an error."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def nothing_waits() -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which synchronization with the GPU is an error; skip without a GPU."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return _refuse_to_wait


@pytest.fixture
def their_own_advice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ignore warnings of Lightning and transformers about themselves; allow no network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning|transformers|accelerate|torch\.")
        warnings.filterwarnings("ignore", message=".*(does not have many workers|litlogger|log_every_n_steps).*")
        yield


def _one_of_two(
    work: Callable[..., dict[str, Any]], folder: Path, port: int, rank: int, arguments: dict[str, Any]
) -> None:
    """Run `work` in a process with the variables that torchrun sets; save its result."""
    import torch

    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        torch.save(work(rank, **arguments), folder / f"result{rank}.pt")
    except BaseException:
        Path(folder, f"error{rank}").write_text(format_exc())
        raise SystemExit(1) from None


def _joined(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return the work with the process group initialized around it."""
    import torch

    def join(rank: int, **arguments: Any) -> dict[str, Any]:
        torch.distributed.init_process_group("gloo")
        result = work(rank, **arguments)
        torch.distributed.destroy_process_group()
        return result

    return join


@pytest.fixture
def in_two_processes(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that calls `work(rank, ...)` in two processes of a gloo group and returns both results.

    The processes are forks, which need not import torch. With join=False the work initializes the group itself.
    """
    import torch

    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    if "fork" not in multiprocessing.get_all_start_methods() or torch.cuda.is_available():
        pytest.skip("needs processes that can be forked, which torch forbids after a backward pass near a GPU")

    def run(work: Callable[..., dict[str, Any]], join: bool = True, **arguments: Any) -> list[dict[str, Any]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        body = _joined(work) if join else work
        started = [_fork(_one_of_two, body, tmp_path, port, rank, arguments) for rank in range(2)]
        multiprocessing.connection.wait([process.sentinel for process in started], timeout=120)
        for process in started:
            process.join(60)  # after a failure the other process waits forever
            process.kill()
            process.join()
        output = "\n".join(path.read_text() for path in tmp_path.glob("error?"))
        assert [process.exitcode for process in started] == [0, 0], output
        return [torch.load(tmp_path / f"result{rank}.pt") for rank in range(2)]

    return run


def _fork(function: Callable[..., None], *args: Any) -> Any:
    """Start a fork of this process; the listening thread of a pytest worker does no harm."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args, daemon=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")
        process.start()
    return process


def _command(words: Sequence[str], out: int, err: int, encoding: str, environment: dict[str, str]) -> None:
    """Run a command of the library in a process, as a terminal does."""
    import sys

    from genlabel.cli import main

    os.environ.update(environment)
    for number, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding=encoding, closefd=False) for number in (1, 2))
    sys.argv = ["genlabel", *words]
    warnings.resetwarnings()
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


@pytest.fixture
def start_command() -> Callable[..., Any]:
    """Return a function that starts a command in a fork with two file descriptors for its output."""
    import torch

    if "fork" not in multiprocessing.get_all_start_methods() or torch.cuda.is_available():
        pytest.skip("needs processes that can be forked, which torch forbids after a backward pass near a GPU")

    def start(words: Sequence[Any], out: int, err: int, encoding: str = "utf-8", **environment: str) -> Any:
        import genlabel.evaluation.comparison
        import genlabel.evaluation.table_models  # noqa: F401

        return _fork(_command, [str(word) for word in words], out, err, encoding, environment)

    return start


class Html(HTMLParser):
    """Parsed page: its tags with attributes and its text; fails on unbalanced tags."""

    VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    @property
    def text(self) -> str:
        """Visible text of the page."""
        return "".join(self.parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.parts.append(data)


@pytest.fixture(scope="session")
def read_html() -> Callable[[str], Html]:
    """Return the parser of pages."""
    return Html


FLAGS = [
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars",
]  # fmt: skip


class Browser:
    """Chromium driven by WebDriver, with the commands that the tests of pages need."""

    def __init__(self, port: int, binary: str, profile: Path) -> None:
        self.port, self.session = port, ""
        flags = [*(f"--{flag}" for flag in FLAGS), f"--user-data-dir={profile}"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": binary, "args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self.session = self._ask("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        address = f"/session/{self.session}{path}" if self.session else path
        connection.request(method, address, json.dumps(body) if method == "POST" else None)
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(value["message"])
        return value

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of this size."""
        self.resize(width, height)
        preferences = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in preferences.items()]
        self.command("Emulation.setEmulatedMedia", features=features)
        self.logs("browser")
        self.logs("performance")
        self._ask("POST", "/url", url=path.as_uri())

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def command(self, name: str, **params: Any) -> Any:
        """Run a command of the Chrome DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", cmd=name, params=params)

    def run(self, script: str, *args: Any) -> Any:
        """Return the value of a JavaScript function body."""
        return self._ask("POST", "/execute/sync", script=script, args=args)

    def wait(self, condition: str) -> bool:
        """Return True if a JavaScript expression becomes true within 5 seconds."""
        poll = f"let end = Date.now() + 5000; const check = () => {{ const result = {condition}; "
        retry = "return result || Date.now() > end ? Promise.resolve(Boolean(result)) : new Promise((go) => "
        return bool(self.run(poll + retry + "setTimeout(go, 20)).then(check); }; return check()"))

    def press(self, key: str) -> None:
        """Press a key, such as "\ue00c", which is Escape, or "\ue007", which is Enter."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": keys}])

    def click(self, selector: str) -> None:
        """Click on the first element of a selector with the mouse."""
        element = self._ask("POST", "/element", using="css selector", value=selector)
        self._ask("POST", f"/element/{next(iter(element.values()))}/click")

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """Return the log since the last call: "browser" is the console, "performance" has the requests."""
        return self._ask("POST", "/se/log", type=kind)

    def complaints(self) -> list[str]:
        """Return the lines of the console since the page was opened."""
        return [str(line["message"]) for line in self.logs("browser")]

    def requests(self) -> list[str]:
        """Return the requested addresses since the page was opened."""
        events = [json.loads(line["message"])["message"] for line in self.logs("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save the visible part, or the whole page, as a PNG."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole) if whole else None
        path.write_bytes(b64decode(shot["data"] if shot else self._ask("GET", "/screenshot")))

    def quit(self) -> None:
        self._ask("DELETE", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start a Chromium for the tests of a module; skip if it or its driver is missing."""
    binary = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and chromedriver: apt-get install chromium chromium-driver")
    with subprocess.Popen(
        [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        port = next(int(match[1]) for line in lines if (match := re.search(r"successfully on port (\d+)", line)))
        chromium = Browser(port, binary, tmp_path_factory.mktemp("profile"))
        yield chromium
        chromium.quit()
        process.terminate()
