#!/usr/bin/env python3
"""llama.cpp's server out of the Python package xllamacpp, with the arguments of the program that it stands in for.

It writes how it is set to standard error in the words of the program's log, so that it can be read back."""
import hashlib
import pathlib
import signal
import sys


def say(*words):
    print(*words, file=sys.stderr, flush=True)


try:
    import xllamacpp
except ImportError as error:
    say(f"xllamacpp cannot be loaded: {error}")
    sys.exit(1)


def version():
    library = pathlib.Path(xllamacpp.__file__).with_name("xllamacpp.abi3.so")
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return f"xllamacpp {xllamacpp.__version__}, {library.name} sha256 {digest}"


def main(words):
    if words == ["--version"]:
        print(version())
        return
    params = xllamacpp.CommonParams()
    flash = xllamacpp.llama_flash_attn_type
    setters = {
        "-m": lambda value: setattr(params.model, "path", value),
        "--host": lambda value: setattr(params, "hostnames", [value]),
        "--port": lambda value: setattr(params, "port", int(value)),
        "-c": lambda value: setattr(params, "n_ctx", int(value)),
        "-np": lambda value: setattr(params, "n_parallel", int(value)),
        "-t": lambda value: [setattr(each, "n_threads", int(value)) for each in (params.cpuparams, params.cpuparams_batch)],
        "-fa": lambda value: setattr(
            params,
            "flash_attn_type",
            flash.LLAMA_FLASH_ATTN_TYPE_ENABLED if value == "on" else flash.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        ),
        "--cache-ram": lambda value: setattr(params, "cache_ram_mib", int(value)),
        "--threads-http": lambda value: setattr(params, "n_threads_http", int(value)),
        "-lv": lambda value: setattr(params, "verbosity", int(value)),
        "--slot-save-path": lambda value: setattr(params, "slot_save_path", value),
    }
    words = iter(words)
    for word in words:
        if word == "--no-kv-unified":
            params.kv_unified = False
        elif word in setters:
            setters[word](next(words))
        else:
            sys.exit(f"unknown argument {word}")
    params.n_gpu_layers = 0
    server = xllamacpp.Server(params)
    say(f"launcher: listening at {server.listening_address}")
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


main(sys.argv[1:])
