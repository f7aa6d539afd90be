#!/usr/bin/env python3
"""Plays llama.cpp's server: slots, copies of slots, completions whole, its settings in its log.

It knows the answers of FAKE_ANSWERS, a JSON object from prompts ("1,2,3") to ids, and answers anything else with zeros. FAKE_DOES
says what it does wrong: nothing, or one of the words below."""
import http.server
import json
import os
import signal
import sys
import threading
import time

DOES = os.environ.get("FAKE_DOES", "")
ANSWERS = json.load(open(os.environ["FAKE_ANSWERS"])) if "FAKE_ANSWERS" in os.environ else {}


def flag(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(words):
    print(words, file=sys.stderr, flush=True)


if "--version" in sys.argv:
    if DOES == "kills who asks":
        os.kill(os.getppid(), signal.SIGKILL)
    say("version: played" + (" at %d" % time.time_ns() if DOES == "changes" else ""))
    sys.exit(0)
if "--help" in sys.argv:
    print("-np N\n-c N\n-t N\n-fa F\n--slot-save-path PATH\n--no-kv-unified\n--cache-ram N\n-lv N")
    sys.exit(0)
if DOES == "dies at start":
    say("error: cannot load the model")
    sys.exit(1)

SLOTS = int(flag("-np"))
slots = [[] for _ in range(SLOTS)]
answered = 0
lock = threading.Lock()
say("system_info: n_threads = %s (n_threads_batch = 2) / 2 | CPU : AVX2 = 1 | FMA = 1 | FP16_VA = 0 |" % flag("-t"))
if DOES != "does not say":
    say("flash_attn = %s" % ("enabled" if flag("-fa") == "on" else "disabled"))
say("kv_unified = false")
say("size = 1.00 MiB, K (f16): 0.50 MiB, V (f16): 0.50 MiB")


def common(left, right):
    count = 0
    for one, other in zip(left, right):
        if one != other:
            break
        count += 1
    return count


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))

    def reply(self, document, status=200):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.path == "/health":
            return self.reply({"status": "ok"})
        context = int(flag("-c")) // SLOTS
        model = os.path.abspath(flag("-m"))
        self.reply({"total_slots": SLOTS, "build_info": "played", "model_path": model, "default_generation_settings": {"n_ctx": context}})

    def do_POST(self):
        if self.path == "/completion":
            return self.complete(self.body())
        slot = int(self.path.split("/")[2].split("?")[0])
        if not flag("--slot-save-path"):
            return self.reply({"error": {"code": 501, "message": "This server does not support slots action."}}, 501)
        if self.path.endswith("erase"):
            erased = len(slots[slot])
            slots[slot] = []
            return self.reply({"id_slot": slot, "n_erased": erased})
        path = os.path.join(flag("--slot-save-path"), self.body()["filename"])
        if self.path.endswith("save"):
            json.dump(slots[slot], open(path, "w"))
            return self.reply({"id_slot": slot, "n_saved": len(slots[slot])})
        slots[slot] = json.load(open(path))
        self.reply({"id_slot": slot, "n_restored": len(slots[slot])})

    def complete(self, ask):
        global answered
        prompt, slot = ask["prompt"], ask["id_slot"]
        count = max(ask["n_predict"], 1)
        ids = ANSWERS.get(",".join(map(str, prompt)), [0] * count)[:count]
        with lock:
            answered += 1
            # The last position is always computed: its logits choose the first id.
            cached = min(common(slots[slot], prompt), len(prompt) - 1)
            slots[slot] = prompt + (ids[:-1] if ask["n_predict"] else [])
            number = answered
        if DOES == "dies midway" and number > 8:
            os._exit(3)
        if DOES == "hangs midway" and number > 8:
            time.sleep(600)
        if DOES == "refuses all" or DOES == "refuses" and number > 8:
            return self.reply({"error": {"code": 503, "message": "busy"}}, 503)
        if DOES == "dies in its answer" and number > 8:
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"content"')
            self.wfile.flush()
            os._exit(3)
        if DOES == "takes its time" and number > 3:
            time.sleep(0.25)
        early = DOES == "stops early" and number > 8
        if early:
            ids = ids[:1]
        timings = {"cache_n": cached, "prompt_n": len(prompt) - cached, "predicted_n": len(ids)}
        if number > 8:
            if DOES == "counts more than came":
                timings["predicted_n"] += 1
            elif DOES == "counts what is no number":
                timings["cache_n"] = float("nan")
            elif DOES == "found more than was sent":
                timings.update(cache_n=len(prompt) + 5, prompt_n=0)
            elif DOES == "cuts prompts in silence":
                timings["prompt_n"] -= 3
        if DOES == "is warm" or DOES == "finds what it never saw" and number > 3:
            timings.update(cache_n=len(prompt) - 1, prompt_n=1)
        if DOES == "does not count its cache":
            del timings["cache_n"]
        self.reply({
            "content": "", "tokens": ids, "stop": True, "truncated": DOES == "cuts prompts" and number > 8,
            "stop_type": "eos" if early else "limit",
            "generation_settings": {"logit_bias": []}, "timings": timings,
        })


address = (flag("--host"), int(flag("--port")))
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
