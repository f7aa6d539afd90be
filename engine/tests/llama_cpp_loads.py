"""Loads a GGUF file in llama.cpp and lets it complete a prompt: what we write, others can read.

usage: python3 llama_cpp_loads.py MODEL.gguf [IDS...]   (needs the Python package xllamacpp)
"""

import json
import sys

import xllamacpp

PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"
TOKENS = 8


def complete(path: str) -> list[int]:
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 256
    params.cpuparams.n_threads = 2
    params.warmup = False
    server = xllamacpp.Server(params)
    answer = server.handle_completions(
        {"prompt": PROMPT, "n_predict": TOKENS, "temperature": 0.0, "return_tokens": True, "ignore_eos": True}
    )
    answer = answer if isinstance(answer, dict) else json.loads(answer)
    return answer.get("tokens") or [choice["text"] for choice in answer["choices"]]


if __name__ == "__main__":
    tokens = complete(sys.argv[1])
    assert tokens, "llama.cpp gave no output"
    print(f"llama.cpp loaded the file and continued the prompt with {tokens}")
