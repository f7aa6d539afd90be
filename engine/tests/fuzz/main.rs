//! Damaged files into every parser: each ends in a result or a typed error, soon, in bounded memory, never in a panic.
//!
//! The core run is short and always the same. `FAK_FUZZ_SECONDS=180 cargo test -p engine --test fuzz -- --nocapture`
//! runs each target that long (`FAK_FUZZ_TARGET=gguf` only one, `FAK_FUZZ_SEED=7` from elsewhere). The seed underway is
//! in `fuzz-<target>.seed` of the temporary directory, so that a case that ends the process is not lost.
//! A finding goes, small, to `fuzz-corpus/<target>/` and stays fixed.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

#[path = "../common/mod.rs"]
mod common;
mod mutate;
mod seeds;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::template::{ChatInput, ChatTemplate, Clock, Json};
use engine::weights::gguf::Gguf;
use engine::{Engine, EngineOptions, Error, KernelChoice, Mode, Model, Result, Tokenizer};
use mutate::{Random, mutant};
use serde_json::json;

/// Cases per target in the core run.
const CASES: u64 = 400;
/// What finds an input that would never end: far above any honest case, on a loaded machine too.
const CASE_MAX: Duration = Duration::from_secs(10);
/// Times an input is tried before it is called slow.
const ATTEMPTS: usize = 3;
/// Resident memory may grow by no more over a target's whole run: the template's own bound and change.
const GROWTH_MAX_KIB: u64 = 400 << 10;

/// Whether anything but the template library has panicked.
static OWN_PANIC: AtomicBool = AtomicBool::new(false);

/// Notes our own panics and keeps the library's quiet: each would print a page.
fn watch_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |location| location.file());
        if !place.contains("/minijinja-") {
            OWN_PANIC.store(true, Ordering::Relaxed);
            print(panic);
        }
    }));
}

struct Target {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
    /// Tries an input in a directory of its own.
    attempt: fn(&Path, &[u8]) -> Result<()>,
}

const JSON_WORDS: &[&str] = &[
    "{", "}", "[", "]", "\"", "null", "true", "-1", "1e999", "0.5", "\\u0000", "\\ud800", ",", ":",
    "[[[[[[[[", "\"\"",
];
const GGUF_WORDS: &[&str] = &[
    "GGUF",
    "llama",
    "qwen2",
    "gpt2",
    "weight",
    "\0\0\0\0\0\0\0\0",
    "tokenizer.ggml.",
    "é",
];
const TEMPLATE_WORDS: &[&str] = &[
    "{% for x in messages %}",
    "{% endfor %}",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-%}",
    "{%-",
    "if",
    "endif",
    "| tojson",
    "| join",
    "messages",
    "tools",
    "[0]",
    ".x",
    "(",
    ")",
    "range(9)",
    "* 99999",
    "~",
    "'",
    "{% raw %}",
    "macro",
    "é",
    "strftime_now('%Y')",
    "raise_exception('x')",
    "{% set x = [x, x] %}",
    ".format(",
    "loop.index",
    "not ",
    " is defined",
];

fn targets() -> Vec<Target> {
    let target = |name, seeds, words, attempt| Target {
        name,
        seeds,
        words,
        attempt,
    };
    vec![
        target("gguf", seeds::gguf(), GGUF_WORDS, gguf),
        target(
            "gguf-tokenizer",
            seeds::gguf_metadata(),
            GGUF_WORDS,
            gguf_tokenizer,
        ),
        target("safetensors", seeds::safetensors(), JSON_WORDS, safetensors),
        target("config", seeds::configs(), JSON_WORDS, config),
        target("tokenizer", seeds::tokenizers(), JSON_WORDS, tokenizer),
        target("template", seeds::templates(), TEMPLATE_WORDS, template),
    ]
}

fn gguf(directory: &Path, bytes: &[u8]) -> Result<()> {
    let path = directory.join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    compute(Model::open(&path)?)
}

/// A model that loads must also run, to logits or to a typed error.
fn compute(model: Model) -> Result<()> {
    let options = EngineOptions {
        mode: Mode::Exact,
        kv_type: None,
        kernels: KernelChoice::Scalar,
        threads: 1,
        chunk_tokens: 64,
        kv_pages: 4,
        ..EngineOptions::default()
    };
    Engine::new(model, &options)?.logits(&[0, 1, 2], false)?;
    Ok(())
}

fn gguf_tokenizer(directory: &Path, bytes: &[u8]) -> Result<()> {
    let path = directory.join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    speak(&Tokenizer::from_gguf(&Gguf::open(&path)?)?)
}

/// A tokenizer that loads must take any text and any of its ids.
fn speak(tokenizer: &Tokenizer) -> Result<()> {
    for special in [false, true] {
        let ids = tokenizer.encode("ab cab<|end|>\u{0}é 日本 \u{1F600}12", special)?;
        tokenizer.decode(&ids)?;
    }
    let mut stream = tokenizer.stream();
    for id in 0..tokenizer.vocab().min(300) {
        stream.push(id as u32)?;
    }
    stream.finish();
    Ok(())
}

/// Writes a hub directory with `bytes` as its file `name`.
fn hub(directory: &Path, name: &str, bytes: &[u8]) {
    for (file, content) in [
        ("config.json", &seeds::configs()[0]),
        ("model.safetensors", &seeds::safetensors()[0]),
    ] {
        let content = if file == name { bytes } else { content };
        std::fs::write(directory.join(file), content).unwrap();
    }
}

fn safetensors(directory: &Path, bytes: &[u8]) -> Result<()> {
    hub(directory, "model.safetensors", bytes);
    compute(Model::open(directory)?)
}

fn config(directory: &Path, bytes: &[u8]) -> Result<()> {
    hub(directory, "config.json", bytes);
    compute(Model::open(directory)?)
}

fn tokenizer(directory: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(directory.join("tokenizer.json"), bytes).unwrap();
    speak(&Tokenizer::from_hf(directory)?)
}

fn template(_: &Path, bytes: &[u8]) -> Result<()> {
    let messages = [
        json!({"role": "user", "content": "Hi é"}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}),
    ]
    .map(Json::from);
    let template = ChatTemplate::new(&String::from_utf8_lossy(bytes))?;
    let rendered = template.render(&ChatInput {
        messages: &messages,
        tools: Some(&json!([{"type": "function", "function": {"name": "f"}}]).into()),
        add_generation_prompt: true,
        bos_token: "<s>",
        eos_token: "</s>",
        clock: Clock::from_unix_seconds(1_753_000_000),
        extra: &BTreeMap::new(),
    });
    match rendered {
        // The renderer contains the library's panics (arithmetic at the edge of i64); none may be our own.
        Err(Error::TemplateLimit(what)) => {
            let contained = !what.contains("panicked") || !OWN_PANIC.load(Ordering::Relaxed);
            assert!(contained, "{what}");
            Err(Error::TemplateLimit(what))
        }
        rendered => rendered.map(drop),
    }
}

/// Tries one input; what is wrong with how it ended, if anything.
fn fault(target: &Target, directory: &Path, bytes: &[u8]) -> Option<String> {
    let mut took = Duration::MAX;
    // A busy machine makes any input slow once; an input that is slow is slow each time.
    for _ in 0..ATTEMPTS {
        let start = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| (target.attempt)(directory, bytes)));
        took = took.min(start.elapsed());
        match ended {
            Err(_) => return Some("it panics".to_owned()),
            Ok(Err(error)) if error.to_string().is_empty() => {
                return Some("its error is empty".to_owned());
            }
            Ok(_) if took <= CASE_MAX => return None,
            Ok(_) => {}
        }
    }
    Some(format!("it takes {took:?}"))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Peak resident memory in KiB, 0 where the system does not say.
fn peak_kib() -> u64 {
    common::peak_bytes().unwrap_or(0) >> 10
}

/// Runs a target for its time or its cases; returns the number of cases.
fn run(target: &Target, seconds: Option<u64>, first: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let kept = |what: &str| std::env::temp_dir().join(format!("fuzz-{}.{what}", target.name));
    let underway = File::create(kept("seed")).unwrap();
    let (start, before) = (Instant::now(), peak_kib());
    let mut cases = 0;
    while seconds.map_or(cases < CASES, |seconds| start.elapsed().as_secs() < seconds) {
        let seed = first + cases;
        underway
            .write_all_at(format!("{seed:20}").as_bytes(), 0)
            .unwrap();
        let bytes = mutant(&mut Random(seed), &target.seeds, target.words);
        if let Some(fault) = fault(target, directory.path(), &bytes) {
            let input = kept("input");
            std::fs::write(&input, &bytes).unwrap();
            panic!(
                "{}: seed {seed}: {fault}; the input is {}",
                target.name,
                input.display()
            );
        }
        cases += 1;
    }
    let growth = peak_kib().saturating_sub(before);
    assert!(
        growth < GROWTH_MAX_KIB,
        "{}: memory grew by {growth} KiB",
        target.name
    );
    cases
}

#[test]
fn damaged_input_ends_in_a_result_or_a_typed_error() {
    watch_panics();
    let (seconds, first) = (
        number("FAK_FUZZ_SECONDS"),
        number("FAK_FUZZ_SEED").unwrap_or(0),
    );
    let only = std::env::var("FAK_FUZZ_TARGET").ok();
    for target in targets() {
        if only.as_ref().is_some_and(|only| only != target.name) {
            continue;
        }
        let start = Instant::now();
        let cases = run(&target, seconds, first);
        eprintln!(
            "{}: {cases} cases in {:?}, no finding",
            target.name,
            start.elapsed()
        );
    }
}

#[test]
fn undamaged_input_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    for target in targets() {
        for seed in &target.seeds {
            match (target.attempt)(directory.path(), seed) {
                Ok(()) => {}
                // The rendering cases are written for another conversation.
                Err(_) if target.name == "template" => {}
                Err(error) => panic!("{}: {error}", target.name),
            }
        }
    }
}

#[test]
fn past_findings_stay_fixed() {
    watch_panics();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz-corpus");
    let directory = tempfile::tempdir().unwrap();
    let mut replayed = 0;
    for target in targets() {
        let Ok(entries) = std::fs::read_dir(corpus.join(target.name)) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let fault = fault(&target, directory.path(), &std::fs::read(&path).unwrap());
            assert_eq!(fault, None, "{}", path.display());
            replayed += 1;
        }
    }
    assert!(replayed > 0, "the corpus is empty");
}
