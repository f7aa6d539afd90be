"""Holds mode `exact` against llama.cpp on the golden prompts and one F16 file, as a table.

usage: python3 llama_cpp_exact.py HARNESS F16.gguf GOLDEN_DIRECTORY [PROMPT...]   (needs the Python package xllamacpp)

Both decode greedily, llama.cpp with half-precision keys and values, we with float32 ones. A prompt holds if the first
64 tokens are equal (all of them, where the text ends before), or if they part where our engine preferred its own token
by less than 0.05 nats. Exit 1 if one does not.
"""

import json
import struct
import sys
import tempfile
from pathlib import Path

import llama_cpp

EQUAL = 64
TOKENS = 96
NEAR_TIE = 0.05


def golden_ids(file: Path) -> list:
    """The tensor `input_ids` of a safetensors file."""
    raw = file.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    tensor = json.loads(raw[8 : 8 + length])["input_ids"]
    kind = {"I32": "i", "U32": "I", "I64": "q"}[tensor["dtype"]]
    start, end = tensor["data_offsets"]
    body = raw[8 + length + start : 8 + length + end]
    return list(struct.unpack(f"<{len(body) // struct.calcsize(kind)}{kind}", body))


def main() -> int:
    harness, model, golden, *names = sys.argv[1:]
    index = json.loads((Path(golden) / "index.json").read_text())
    wanted = [it for it in index["prompts"] if not names or it["name"] in names]
    prompts = {it["name"]: golden_ids(Path(golden) / it["file"]) for it in wanted}
    llama_cpp.TOKENS = TOKENS
    llama_cpp.CONTEXT = max(map(len, prompts.values())) + TOKENS + 8
    answers = llama_cpp.theirs(model, prompts)
    failed = False
    print("| prompt | prompt tokens | equal greedy tokens | parts at a margin of |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for prompt_name, prompt in prompts.items():
            their_ids = answers[prompt_name]
            assert their_ids, "llama.cpp gave no tokens"
            our_ids = llama_cpp.ours(harness, model, prompt, "exact", directory)
            both = list(zip(our_ids, their_ids))
            equal = next((i for i, (a, b) in enumerate(both) if a != b), len(both))
            words = "do not part"
            if equal < len(both):
                text = prompt + our_ids[:equal]
                by = llama_cpp.margin(harness, model, text, "exact", their_ids[equal], directory)
                words = f"{by:.4f} nats"
                failed |= equal < EQUAL and by >= NEAR_TIE
            elif abs(len(our_ids) - len(their_ids)) > 1:  # one lists the token that ends a text, the other does not
                words, failed = f"lengths {len(our_ids)} and {len(their_ids)}", True
            print(f"| {prompt_name} | {len(prompt)} | {equal} of {len(both)} | {words} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
