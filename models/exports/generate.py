"""Answer the prompts of a JSONL file with the engine of a plan; needs Python and the engine alone.

    python generate.py prompts.jsonl results                         every prompt, on the GPUs of this machine
    python generate.py prompts.jsonl results --shard 1 --shards 4    the share of one machine of four
    python generate.py --measure measure.json                        ten minutes, for `planner calibrate`

A line of prompts.jsonl is {"id": ..., "prompt": "..."} or {"id": ..., "messages": [...]}; `id` may be left out, and
`adapter` names an adapter that is served. `generate.json` in the folder of this file has the settings. Answers are
written in parts, each at once as a whole: what is there is skipped, so a run that was interrupted is started again.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

TRIES = 5  # times that a prompt is sent before the engine counts as broken
START_SECONDS = 3600  # longest start of an engine: large weights are fetched first
OF_ANSWERS = ("model", "weight_format", "kv_bits", "max_tokens", "sampling", "prompts_per_part")  # they depend on


class Part:
    """Some successive prompts, whose answers are one file; `answers` has None where one is missing."""

    def __init__(self, path: Path, first: int, lines: list[bytes], answers: list[Any]) -> None:
        self.path, self.first, self.lines, self.answers = path, first, lines, answers
        self.lock, self.missing = threading.Lock(), answers.count(None)

    def put(self, place: int, answer: dict[str, Any]) -> None:
        """Keep an answer, and write the file with the last one."""
        with self.lock:
            self.answers[place] = answer
            self.missing -= 1
            if not self.missing:
                write_whole(self.path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.answers))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    made = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    made.write_text(text, encoding="utf-8")
    made.replace(path)


def fail(*messages: str) -> NoReturn:
    """Print messages and end with exit code 2."""
    print(*(f"generate.py: {message}" for message in messages), sep="\n", file=sys.stderr)
    sys.exit(2)


def index_prompts(path: Path, size: int) -> tuple[list[int], int, str]:
    """Return where each part begins (bytes), the number of prompts, and a checksum; ends with every fault found."""
    begins, count, place, faults, digest = [], 0, 0, [], hashlib.sha256()
    seen: set[Any] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            digest.update(line)
            if line.strip():
                key, what = check(line)
                what = what or (f"id {key!r} is there twice" if key in seen else "")
                seen.update(() if key is None else (key,))
                faults += [f"{path}:{number}: {what}"] if what else []
                begins += [place] if count % size == 0 else []
                count += 1
            place += len(line)
    if faults or not count:
        more = [f"and {len(faults) - 20} more"] if len(faults) > 20 else []
        fail(*(faults[:20] or [f'{path} has no prompts: one {{"id": ..., "prompt": "..."}} on each line']), *more)
    return begins, count, digest.hexdigest()


def check(line: bytes) -> tuple[Any, str]:
    """Return the id of a prompt, and what is wrong with its line."""
    try:
        data = json.loads(line)
    except ValueError as error:
        return None, f"no JSON: {error}"
    if not isinstance(data, dict) or not isinstance(data.get("id", 0), (str, int)):
        return None, 'no object {"id": text or number, "prompt": "..."}'
    prompt, messages = data.get("prompt"), data.get("messages")
    right = messages is None if isinstance(prompt, str) and prompt else prompt is None and isinstance(messages, list)
    return data.get("id"), "" if right and (prompt or messages) else "give either prompt, a text, or messages, a list"


def same_run(folder: Path, now: dict[str, Any]) -> None:
    """Keep what the answers depend on, or end where the folder has answers to something else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        other = [name for name in now if before.get(name) != now[name]]
        if other:
            what = ", ".join(f"{name} was {before.get(name)!r} and is {now[name]!r}" for name in other)
            fail(f"{folder} has answers of another run ({what}): name another folder")
    else:
        write_whole(path, json.dumps(now, indent=2) + "\n")


def parts_to_do(prompts: Path, folder: Path, size: int, begins: list[int], mine: range, retry: bool) -> Any:
    """Yield the parts of this machine that are not done."""
    for index in mine:
        path = folder / f"part-{index:06d}.jsonl"
        if path.exists() and not retry:
            continue
        with prompts.open("rb") as file:
            file.seek(begins[index])
            lines = list(itertools.islice(filter(bytes.strip, file), size))
        before = path.read_bytes().splitlines() if path.exists() else []
        answers = [row if "error" not in row else None for row in map(json.loads, before)] or [None] * len(lines)
        if None in answers:
            yield Part(path, index * size, lines, answers)


class Engine:
    """One replica: the server of an engine on its GPUs, or one that runs already."""

    def __init__(self, settings: dict[str, Any], number: int, address: str = "") -> None:
        self.settings, self.log, self.process = settings, Path(f"engine-{number}.log"), None
        self.host, _, port = (address or f"127.0.0.1:{settings['first_port'] + number}").partition(":")
        self.port = int(port)
        if not address:
            gpus = settings["gpus_per_replica"]
            visible = ",".join(str(number * gpus + gpu) for gpu in range(gpus))
            own = {**os.environ, "CUDA_VISIBLE_DEVICES": visible, "HIP_VISIBLE_DEVICES": visible}
            served = [f"{name}={folder}" for name, folder in settings["adapters"].items()]
            with self.log.open("wb") as out:
                self.process = subprocess.Popen(self.fill(settings["serve"] + served), stdout=out, stderr=out, env=own)

    def fill(self, command: list[str]) -> list[str]:
        """Return a command of the settings with port and model in place."""
        return [word.replace("{port}", str(self.port)).replace("{model}", self.settings["model"]) for word in command]

    def wait(self) -> None:
        """Return when the engine takes requests; `RuntimeError` with the end of its log where it does not."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and not self.died():
            try:
                link = http.client.HTTPConnection(self.host, self.port, timeout=10)
                link.request("GET", "/health")
                if link.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.5)
        raise RuntimeError(self.died() or f"the engine on port {self.port} does not start")

    def died(self) -> str:
        """Return why the engine has ended; empty while it runs."""
        if self.process is None or self.process.poll() is None:
            return ""
        last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return "\n".join((f"the engine ended with {self.process.returncode}; end of {self.log}:", *last))

    def stop(self) -> None:
        """End the engine."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def answer(self, link: http.client.HTTPConnection, data: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a prompt, or the error of one that the engine refuses; raises where it fails."""
        asked = {"model": data.get("adapter") or self.settings["model"], "max_tokens": self.settings["max_tokens"]}
        path, key = ("chat/completions", "messages") if data.get("messages") else ("completions", "prompt")
        body = json.dumps({**asked, **self.settings["sampling"], key: data[key]}).encode()
        for attempt in range(TRIES):
            try:
                link.request("POST", f"/v1/{path}", body, {"Content-Type": "application/json"})
                response = link.getresponse()
                text = response.read()
                if response.status in (400, 404, 413, 422):  # the prompt itself is wrong
                    return {"error": text.decode(errors="replace")[:500]}
                if response.status == 200:
                    found = json.loads(text)
                    (choice,), used = found["choices"], found.get("usage") or {}
                    return {
                        "text": choice["message"]["content"] if "message" in choice else choice["text"],
                        "finish_reason": choice.get("finish_reason"),
                        "prompt_tokens": used.get("prompt_tokens"),
                        "output_tokens": used.get("completion_tokens"),
                    }
                why = f"status {response.status}: {text.decode(errors='replace')[:200]}"
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                why = f"{type(error).__name__}: {error}"
                link.close()
            if self.died():
                break
            time.sleep(2.0**attempt / 4)
        raise RuntimeError(self.died() or f"no answer on port {self.port} after {TRIES} times: {why}")


def answer_all(engines: list[Engine], parts: Any, concurrency: int, total: int) -> None:
    """Send every prompt of the parts to an engine that has room; `RuntimeError` of the first failure."""
    todo = ((part, place) for part in parts for place, answer in enumerate(part.answers) if answer is None)
    counts = {"answered": 0, "refused": 0, "cut": 0, "output_tokens": 0}
    failed: list[Exception] = []
    lock, begun = threading.Lock(), time.monotonic()

    def next_task() -> Any:
        with lock:
            return None if failed else next(todo, None)

    def count(found: dict[str, Any]) -> None:
        with lock:
            counts["refused" if "error" in found else "answered"] += 1
            counts["cut"] += found.get("finish_reason") == "length"
            counts["output_tokens"] += found.get("output_tokens") or 0
            if (counts["answered"] + counts["refused"]) % 10_000 == 0:
                say(counts, total, time.monotonic() - begun)

    def work(engine: Engine) -> None:
        link = http.client.HTTPConnection(engine.host, engine.port, timeout=3600)
        try:
            while (task := next_task()) is not None:
                part, place = task
                data = json.loads(part.lines[place])
                found = engine.answer(link, data)
                part.put(place, {"id": data.get("id", part.first + place), **found})
                count(found)
        except Exception as error:  # ends the run, and is raised below
            failed.append(error)

    threads = [
        threading.Thread(target=work, args=(engine,), daemon=True) for engine in engines for _ in range(concurrency)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise RuntimeError(str(failed[0]))
    say(counts, total, time.monotonic() - begun)


def say(counts: dict[str, int], total: int, seconds: float) -> None:
    """Print how far the run is."""
    line = f"{counts['answered']:,} of {total:,} prompts answered now"
    line += f", {counts['output_tokens'] / max(seconds, 1e-9):,.0f} output tokens/s"
    line += f", {counts['cut']:,} cut at max_tokens" if counts["cut"] else ""
    print(line + (f", {counts['refused']:,} refused (--retry-errors)" if counts["refused"] else ""), flush=True)


def main() -> None:
    """Start the engines, answer the prompts of this machine, or measure."""
    parser = argparse.ArgumentParser(description="Answer prompts with the engine of a plan, or measure it.")
    parser.add_argument("prompts", type=Path, nargs="?", default=Path("prompts.jsonl"))
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    parser.add_argument("--shard", type=int, default=0, help="number of this machine, from 0")
    parser.add_argument("--shards", type=int, default=1, help="machines that share the prompts")
    parser.add_argument("--retry-errors", action="store_true", help="ask again what the engine refused")
    parser.add_argument("--settings", type=Path, default=Path(__file__).with_name("generate.json"))
    parser.add_argument("--endpoint", action="append", default=[], help="an engine that runs already: HOST:PORT")
    parser.add_argument("--measure", metavar="FILE", help="measure one replica and write its figures as JSON")
    given = parser.parse_args()
    settings = json.loads(given.settings.read_text(encoding="utf-8"))
    empty = [name for name, value in {"model": settings["model"], **settings["adapters"]}.items() if not value]
    if empty:
        fail(f"{', '.join(empty)}: empty in {given.settings}; name the weights ({settings['weight_format']})")
    if not 0 <= given.shard < given.shards:
        fail(f"--shard {given.shard} is not from 0 to {given.shards - 1}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size, engines = settings["prompts_per_part"], []
    if not given.measure:
        begins, count, checksum = index_prompts(given.prompts, size)
        same_run(given.results, {"prompts": checksum, **{name: settings[name] for name in OF_ANSWERS}})
        mine = range(given.shard, len(begins), given.shards)
        total = sum(min(size, count - index * size) for index in mine)
        todo = parts_to_do(given.prompts, given.results, size, begins, mine, given.retry_errors)
        head = next(todo, None)
        if head is None:
            print(f"nothing to do: all parts of machine {given.shard} are in {given.results}")
            return
    try:
        own = [""] * (1 if given.measure else settings["replicas_per_machine"])
        for number, address in enumerate(given.endpoint or own):
            engines.append(Engine(settings, number, address))
        for engine in engines:
            engine.wait()
        if given.measure:
            command = engines[0].fill(settings["measure"])
            subprocess.run([word.replace("{out}", given.measure) for word in command], check=True)
        else:
            answer_all(engines, itertools.chain([head], todo), settings["concurrency"], total)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"generate.py: {error}")
    finally:
        for engine in engines:
            engine.stop()


if __name__ == "__main__":
    main()
