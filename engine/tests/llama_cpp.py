"""Holds the native engine against llama.cpp on one GGUF file: it loads there, and greedy continuations are compared.

usage: python3 llama_cpp.py HARNESS MODEL.gguf [REPORT.json]   (needs the Python package xllamacpp)

Two engines round differently, so texts may part; the script prints where, and by how little our engine preferred its own
token there. It fails if llama.cpp cannot load the file, or if a departure is no near tie.
"""

import json
import struct
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import xllamacpp

PROMPTS = {
    "capital": [504, 3575, 282, 4649, 314],  # "The capital of France is"
}
TOKENS = 48
CONTEXT = 512
# The margin below which byte-rounded inputs were seen to flip a choice (README of the golden vectors).
NEAR_TIE = 0.5


def theirs(path: str, prompts: dict) -> dict:
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = CONTEXT
    params.cpuparams.n_threads = 2
    params.warmup = False
    server = xllamacpp.Server(params)
    answers = {}
    for name, prompt in prompts.items():
        body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0.0, "return_tokens": True,
                "cache_prompt": False}
        request = urllib.request.Request(
            server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as reply:
            answers[name] = json.load(reply)["tokens"]
    return answers


def run(harness: str, *arguments: str) -> str:
    return subprocess.run([harness, *arguments], check=True, capture_output=True, text=True).stdout


def ours(harness: str, model: str, prompt: list, mode: str, directory: Path) -> list:
    ids = directory / "ids.json"
    ids.write_text(json.dumps(prompt))
    answer = run(harness, "model", "generate", model, "--ids", str(ids), "-n", str(TOKENS),
                 "--mode", mode, "--json")
    return json.loads(answer)["ids"]


def margin(harness: str, model: str, prompt: list, mode: str, other: int, directory: Path) -> float:
    """By how much our greatest logit after `prompt` exceeds that of the token `other`."""
    ids, out = directory / "ids.json", directory / "out.f32"
    ids.write_text(json.dumps(prompt))
    run(harness, "model", "logits", model, "--ids", str(ids), "--out", str(out), "--mode", mode)
    raw = out.read_bytes()
    logits = struct.unpack(f"<{len(raw) // 4}f", raw)
    return max(logits) - logits[other]


def main() -> int:
    harness, model = sys.argv[1:3]
    answers = theirs(model, PROMPTS)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for prompt_name, prompt in PROMPTS.items():
            their_ids = answers[prompt_name]
            assert their_ids, "llama.cpp gave no tokens"
            for mode in ("fast", "exact"):
                our_ids = ours(harness, model, prompt, mode, directory)
                part = next((i for i, (a, b) in enumerate(zip(our_ids, their_ids)) if a != b), None)
                if part is None:
                    # One engine lists the token that ends the text, the other does not.
                    assert abs(len(our_ids) - len(their_ids)) <= 1, (our_ids, their_ids)
                    print(f"{prompt_name}, {mode}: all {len(their_ids)} tokens equal llama.cpp's")
                    continue
                by = margin(harness, model, prompt + our_ids[:part], mode, their_ids[part], directory)
                failed |= by > NEAR_TIE
                print(f"{prompt_name}, {mode}: parts from llama.cpp at token {part} of {len(their_ids)}, margin {by:.4f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
