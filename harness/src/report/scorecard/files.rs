//! Metrics that are not times or counters of a run: things that tests show, agreement with a reference, and what another
//! engine's bench said of its settings.
//!
//! Not here: running any of it. The tests run with every change; the file of agreement is written by `harness model agree`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use workloads::trace::{Body, Line, Program};

use super::bound::Bound;
use super::metrics::{Found, Library, Stop, named, worst};
use super::verdict::Measured;
use crate::models::agree::{Agreement, PromptAgreement, SCHEMA};
use crate::report::evidence::Anchored;

/// How many things have a test. Each must exist, as `FILE#TEST`.
pub(super) fn tests(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    if bound.items.is_empty() {
        return Err(Stop::Refused(
            "it needs `items`, each with its test".to_owned(),
        ));
    }
    for (item, test) in &bound.items {
        let refused = |message: String| Stop::Refused(format!("item `{item}`: {message}"));
        let (file, name) = test
            .split_once('#')
            .ok_or_else(|| refused(format!("`{test}` is not `FILE#TEST`")))?;
        let source = fs::read_to_string(library.root.join(file))
            .map_err(|error| refused(format!("{file}: {error}")))?;
        if !has_test(&source, name) {
            return Err(refused(format!("{file} has no test `{name}`")));
        }
    }
    let names: Vec<&str> = bound.items.keys().map(String::as_str).collect();
    Ok(Found {
        measured: Measured {
            one_script: false,
            ..Measured::exact(bound.items.len() as f64, None)
        },
        sentence: format!("Shown by a test each: {}.", names.join(", ")),
        against: "the printed count".to_owned(),
        evidence: bound.items.values().cloned().collect(),
        runs: Vec::new(),
    })
}

/// Whether the source has a function of that name right below `#[test]`.
fn has_test(source: &str, name: &str) -> bool {
    let mut lines = source.lines().map(str::trim_start);
    let starts = format!("fn {name}(");
    let mut marked = false;
    lines.any(|line| {
        let found = marked && line.starts_with(&starts);
        marked = line == "#[test]" || (marked && line.starts_with("#["));
        found
    })
}

/// Mean Kullback-Leibler divergence from the reference's next-token distributions, in nats, over all positions.
pub(super) fn mean_kld(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    let (agreement, prompts) = agreement(bound, library)?;
    let positions: u64 = prompts.iter().map(|it| it.positions).sum();
    let sum = |it: &PromptAgreement| it.mean_kld_nats * it.positions as f64;
    let mean = prompts.iter().map(sum).sum::<f64>() / positions.max(1) as f64;
    Ok(of_prompts(bound, &agreement, &prompts, mean, Some(0.0)))
}

/// The least cosine between our logits of a position and the reference's, over all positions of all files that are bound.
pub(super) fn least_cosine(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let one = bound.of_place(place);
        let (agreement, prompts) = agreement(&one, library)?;
        let least = prompts.iter().map(|it| it.cosine_min);
        let least = least.fold(1.0, f64::min);
        Ok(of_prompts(&one, &agreement, &prompts, least, Some(1.0)))
    })
}

/// The file of agreement and the prompts of it that are bound, as `cell`.
fn agreement(
    bound: &Bound,
    library: &Library<'_>,
) -> Result<(Agreement, Vec<PromptAgreement>), Stop> {
    let first = bound.from.first();
    let run = &first
        .ok_or_else(|| Stop::Refused("it needs `from`".to_owned()))?
        .run;
    let path = library.root.join("reports/scorecard").join(run);
    let text = fs::read_to_string(path).map_err(|error| Stop::Waits(format!("{run}: {error}")))?;
    let found: Agreement = serde_json::from_str(&text)
        .map_err(|error| Stop::Broken(format!("reports/scorecard/{run}: {error}")))?;
    if found.schema != SCHEMA {
        return Err(Stop::Broken(format!(
            "{run} has schema {}, not {SCHEMA}",
            found.schema
        )));
    }
    let mut prompts = Vec::new();
    for place in &bound.from {
        let name = named(place.cell.as_ref())?;
        let prompt = found.prompts.iter().find(|it| it.name == name);
        let missing = || Stop::Waits(format!("{run} has no prompt `{name}`"));
        prompts.push(prompt.ok_or_else(missing)?.clone());
    }
    Ok((found, prompts))
}

fn of_prompts(
    bound: &Bound,
    agreement: &Agreement,
    prompts: &[PromptAgreement],
    ours: f64,
    other: Option<f64>,
) -> Found {
    let words = |it: &PromptAgreement| {
        format!(
            "`{}` ({} positions, worst logit {:.1e} off, best token equal in {})",
            it.name, it.positions, it.worst_logit, it.top1_equal
        )
    };
    let all: Vec<String> = prompts.iter().map(words).collect();
    let file = bound.from.first().map_or("", |place| &place.run);
    let unequal = prompts.iter().filter(|it| it.top1_equal < it.positions);
    let unequal = unequal.map(|it| format!("the best token of some position of `{}`", it.name));
    let mut measured = Measured::exact(ours, other);
    measured.differs = unequal.collect();
    Found {
        measured,
        sentence: format!(
            "`{}` in mode {} against {}: {}.",
            agreement.model,
            agreement.mode,
            agreement.reference,
            all.join(", ")
        ),
        against: agreement.reference.clone(),
        evidence: BTreeSet::from([format!("reports/scorecard/{file}")]),
        runs: Vec::new(),
    }
}

/// A program by its version and digest.
pub(super) fn program_words(program: Option<&Program>) -> String {
    let version = program.and_then(|it| it.version.as_deref());
    let sha256 = program.and_then(|it| it.sha256.as_deref());
    let digest = sha256.map(|it| format!(", sha256 {}", it.chars().take(16).collect::<String>()));
    version.unwrap_or("version unknown").to_owned() + &digest.unwrap_or_default()
}

/// What is known of llama.cpp's bench in one repetition of a cell.
pub(super) struct Bench {
    /// Its version and digest.
    pub(super) program: String,
    /// What it said of itself that is not as ours is: threads and types of keys and values.
    pub(super) differs: BTreeSet<String>,
}

impl Bench {
    /// Reads the trace of its first repetition.
    pub(super) fn read(root: &Path, run: &Anchored, cell: &str, arm: &str) -> Result<Self, Stop> {
        let name = format!("trace/{cell}.{}.jsonl", workloads::arm::stem(arm, 0));
        let broken = |error: &dyn std::fmt::Display| {
            Stop::Broken(format!("{}/{name}: {error}", run.directory()))
        };
        let path = root.join(run.directory()).join(&name);
        let text = fs::read_to_string(path).map_err(|error| broken(&error))?;
        let mut found = Self {
            program: program_words(None),
            differs: BTreeSet::new(),
        };
        let mut arguments = Vec::new();
        for line in text.lines() {
            let line: Line = serde_json::from_str(line).map_err(|error| broken(&error))?;
            match line.body {
                Body::BeginExternal { program, .. } => {
                    found.program = program_words(Some(&program));
                    arguments = program.arguments;
                }
                Body::External { output, .. } => {
                    found.differs.extend(unlike(&output, &arguments, run));
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// In what the output of a bench, or where that is silent its arguments, name other settings than ours.
fn unlike(output: &str, arguments: &[String], run: &Anchored) -> Vec<String> {
    let ours = &run.record.effective;
    let said: Value = serde_json::from_str(output).unwrap_or_default();
    let said = said.get(0).unwrap_or(&said);
    let mut differs = Vec::new();
    for (key, switches) in [
        ("type_k", ["-ctk", "--cache-type-k"]),
        ("type_v", ["-ctv", "--cache-type-v"]),
    ] {
        let its = said[key].as_str();
        let its = its.unwrap_or_else(|| of_arguments(arguments, switches));
        if its != ours.kv_dtype {
            differs.push(format!("its {key} is {its}, ours {}", ours.kv_dtype));
        }
    }
    if said["n_threads"] != ours.threads {
        differs.push(format!(
            "it has {} threads, ours {}",
            said["n_threads"], ours.threads
        ));
    }
    differs
}

/// The type of keys or values that one of `switches` asks for, or llama.cpp's default (`common_params` of b11434).
fn of_arguments<'a>(arguments: &'a [String], switches: [&str; 2]) -> &'a str {
    let mut pairs = arguments.windows(2);
    let found = pairs.find(|pair| switches.contains(&pair[0].as_str()));
    found.map_or("f16", |pair| &pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_that_is_silent_has_the_types_of_its_arguments_or_the_default() {
        let arguments =
            |words: &str| -> Vec<String> { words.split_whitespace().map(str::to_owned).collect() };
        let key = ["-ctk", "--cache-type-k"];
        assert_eq!(of_arguments(&arguments("-m model.gguf -t 2"), key), "f16");
        assert_eq!(
            of_arguments(&arguments("-t 2 -ctk q8_0 -ctv f16"), key),
            "q8_0"
        );
        assert_eq!(of_arguments(&arguments("--cache-type-k f32"), key), "f32");
        assert_eq!(of_arguments(&arguments("-ctk"), key), "f16");
    }
}
