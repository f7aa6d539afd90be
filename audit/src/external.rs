//! The trace of another program: what was asked of it, and what its own answer measures.
//!
//! Not here: whether the program told the truth. Its times are OBSERVED.

use std::path::Path;

use serde_json::Value;

use crate::cell::{Cell, flash_attention};
use crate::chain;
use crate::hash;
use crate::line::{BeginExternal, Body, Line, Program};
use crate::notebook::{Layer, Notebook, Stop, quote};
use crate::trace::Asked;

/// What comparison needs of one trace.
#[derive(Debug)]
pub(crate) struct ExternalTrace {
    pub(crate) model_sha256: String,
    pub(crate) program: Program,
    /// Tokens and nanoseconds; `None` when it ended in `error`.
    pub(crate) measured: Option<(u64, u64)>,
    /// The message of that `error` line.
    pub(crate) error: Option<String>,
    /// When its last line was written.
    pub(crate) last_t_ns: u64,
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    begun: Option<BeginExternal>,
    begun_t_ns: u64,
    measured: Option<(u64, u64)>,
    ended: bool,
    error: Option<String>,
    last_t_ns: u64,
}

/// Reads `name` in `dir`; `None` when it could not be followed to its end.
pub(crate) fn read(
    dir: &Path,
    name: &str,
    asked: &Asked<'_>,
    (cell, threads): (&Cell, u64),
    notes: &mut Notebook,
) -> Option<ExternalTrace> {
    notes.open(name);
    let mut reading = Reading::default();
    let whole = chain::read(&dir.join(name), notes, |line, notes| {
        reading.take(line, asked, (cell, threads), notes).is_ok()
    });
    let ended = reading.ended || reading.error.is_some();
    if whole && !ended {
        notes.broken(
            Layer::Chain,
            "is truncated: the last line is neither `end_external` nor `error`",
        );
    }
    let begun = reading.begun.filter(|_| whole && ended)?;
    Some(ExternalTrace {
        model_sha256: begun.model_sha256,
        program: begun.program,
        measured: reading.measured.filter(|_| reading.ended),
        error: reading.error,
        last_t_ns: reading.last_t_ns,
    })
}

impl ExternalTrace {
    /// This trace is of the same model file as `first`, and of the same build of its program as `of_name`, the first that
    /// has a digest; one that could not be started has none.
    pub(crate) fn check_alike(&self, first: &Self, of_name: Option<&Self>, notes: &mut Notebook) {
        let model = |it: &Self| it.program.arguments.get(1).cloned();
        let what = "the model file among program.arguments";
        notes.same(Layer::Settings, what, &model(self), &model(first));
        if let Some(of_name) = of_name.filter(|_| self.program.sha256.is_some()) {
            self.program.check_same_build(&of_name.program, notes);
        }
    }
}

impl Program {
    /// Digests and version are those of the other.
    pub(crate) fn check_same_build(&self, other: &Self, notes: &mut Notebook) {
        for (what, found, expected) in [
            ("program.sha256", &self.sha256, &other.sha256),
            (
                "program.libraries_sha256",
                &self.libraries_sha256,
                &other.libraries_sha256,
            ),
            ("program.version", &self.version, &other.version),
        ] {
            notes.same(Layer::Settings, what, found, expected);
        }
    }
}

/// What the record says of an external arm's answers where the program cannot be asked for the cell itself.
pub(crate) fn note(cell: &Cell) -> Option<&'static str> {
    let batched = is_batched(cell);
    if !batched && cell.agents > 1 {
        Some("one prompt at a time: llama-bench has no way to ask for several")
    } else if batched && cell.shared > 0 && cell.shared < cell.depth {
        Some(
            "every agent has a copy of its own: llama-batched-bench cannot share a part of a prompt",
        )
    } else {
        None
    }
}

impl Reading {
    fn take(
        &mut self,
        line: Line,
        asked: &Asked<'_>,
        (cell, threads): (&Cell, u64),
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        notes.insist(!self.ended && self.error.is_none(), || {
            "nothing may follow `end_external` or `error`".to_owned()
        })?;
        self.last_t_ns = line.t_ns;
        *notes.asserted.entry("clock times").or_default() += 1;
        match (line.body, &self.begun, self.measured) {
            (Body::BeginExternal(begin), None, _) => {
                check_begin(&begin, asked, notes);
                check_program(&begin, asked, (cell, threads), notes);
                (self.begun, self.begun_t_ns) = (Some(begin), line.t_ns);
            }
            (Body::External(external), Some(begin), None) => {
                let digest = begin.program.sha256.is_some();
                notes.check(Layer::Format, digest, || {
                    "a program without a digest measured something".to_owned()
                });
                let answer = answer(cell, &external.output, notes)?;
                let measured = measurement(cell, &answer, notes)?;
                check_obeyed(&answer, asked.arm, threads, notes);
                notes.check(Layer::Clock, external.wall_ns >= measured.1, || {
                    format!(
                        "the program says {} ns of the {} it ran",
                        measured.1, external.wall_ns
                    )
                });
                let most_ns = line.t_ns.saturating_sub(self.begun_t_ns);
                notes.check(Layer::Clock, external.wall_ns <= most_ns, || {
                    format!(
                        "the program ran {} ns, its clock leaves {most_ns}",
                        external.wall_ns
                    )
                });
                notes.recomputed("external measurements", 1);
                *notes.asserted.entry("clock times").or_default() += 1;
                self.measured = Some(measured);
            }
            (Body::EndExternal(end), Some(_), Some(_)) => {
                notes.same(Layer::Count, "measurements", &end.measurements, &1);
                self.ended = true;
            }
            (Body::Error(failure), Some(_), _) => {
                let said = !failure.message.is_empty();
                notes.check(Layer::Format, said, || "message is empty".to_owned());
                self.error = Some(failure.message);
            }
            _ => {
                return Err(
                    notes.stop("the order is begin_external, external, end_external or error")
                );
            }
        }
        Ok(())
    }
}

fn check_begin(begin: &BeginExternal, asked: &Asked<'_>, notes: &mut Notebook) {
    let stated = [&*begin.envelope, &*begin.envelope_sha256, &*begin.arm];
    asked.check_head(&begin.schema, stated, begin.rep, notes);
    let cell = Some(begin.cell.as_str());
    notes.same(Layer::Format, "cell", &cell, &asked.cell);
    check_digests(&begin.model_sha256, &begin.program, notes);
}

/// What is stated of the model and the program's files are digests.
pub(crate) fn check_digests(model_sha256: &str, program: &Program, notes: &mut Notebook) {
    for (name, digest) in [
        ("model_sha256", Some(model_sha256)),
        ("program.sha256", program.sha256.as_deref()),
        (
            "program.libraries_sha256",
            program.libraries_sha256.as_deref(),
        ),
    ] {
        let Some(digest) = digest else { continue };
        notes.check(Layer::Format, hash::is_digest(digest), || {
            format!("{name} is {}, which is no SHA-256", quote(digest))
        });
    }
}

/// The program is the one that can be asked for the cell, and was asked for it.
fn check_program(
    begin: &BeginExternal,
    asked: &Asked<'_>,
    (cell, threads): (&Cell, u64),
    notes: &mut Notebook,
) {
    let program = &begin.program;
    notes.same(
        Layer::Prompt,
        "program.name",
        program.name.as_str(),
        bench(cell),
    );
    let model = program.arguments.get(1).map_or("", String::as_str);
    let plain = !model.is_empty() && !model.contains(['/', '\\']);
    notes.check(Layer::Format, plain, || {
        "program.arguments: the model is no file name without a path".to_owned()
    });
    let fused = flash_attention(asked.arm).unwrap_or_default();
    let expected = arguments(cell, threads, fused, model);
    notes.same(
        Layer::Prompt,
        "program.arguments",
        &program.arguments.join(" "),
        &expected,
    );
}

fn is_batched(cell: &Cell) -> bool {
    cell.is_decode() && cell.agents > 1
}

fn bench(cell: &Cell) -> &'static str {
    if is_batched(cell) {
        "llama-batched-bench"
    } else {
        "llama-bench"
    }
}

/// The command line FORMAT.md gives for a cell.
fn arguments(cell: &Cell, threads: u64, fused: bool, model: &str) -> String {
    let Cell {
        prompt,
        depth,
        decode,
        agents,
        shared,
        ..
    } = cell;
    if !is_batched(cell) {
        let fa = u8::from(fused);
        return format!(
            "-m {model} -t {threads} -fa {fa} -p {prompt} -n {decode} -d {depth} -r 1 -o json"
        );
    }
    let whole = |positions: u64| positions.next_multiple_of(256);
    let shares = *shared > 0 && shared == depth;
    let (context, sharing) = if shares {
        (whole(depth + agents * (decode + 1)), "-pps -kvu ")
    } else {
        (agents * whole(depth + decode + 1), "")
    };
    let npp = depth.max(&1);
    let fa = if fused { "on" } else { "off" };
    format!(
        "-m {model} -t {threads} -c {context} -npp {npp} -ntg {decode} -npl {agents} {sharing}\
         --output-format jsonl -fa {fa}"
    )
}

/// The program ran with the settings it was asked for, where its answer tells.
fn check_obeyed(answer: &Value, arm: &str, threads: u64, notes: &mut Notebook) {
    let fused = u64::from(flash_attention(arm).unwrap_or_default());
    for (field, asked) in [("n_threads", threads), ("flash_attn", fused)] {
        let effective = answer.get(field).map_or(Some(asked), Value::as_u64);
        notes.check(Layer::Settings, effective == Some(asked), || {
            let effective = quote(&answer[field].to_string());
            format!("the program says {field} {effective}, asked was {asked}")
        });
    }
}

/// Notes that the program's output is none for its cell.
#[track_caller]
fn no_answer(why: &str, notes: &mut Notebook) -> Stop {
    notes.stop(format!("output is not the answer for the cell: {why}"))
}

/// The one measurement in the program's output, if it is of the cell.
fn answer(cell: &Cell, output: &str, notes: &mut Notebook) -> Result<Value, Stop> {
    let (answer, asked) = if is_batched(cell) {
        let line = output.lines().find(|line| line.starts_with('{'));
        let asked = [
            ("pp", cell.depth.max(1)),
            ("tg", cell.decode),
            ("pl", cell.agents),
        ];
        (json(line.unwrap_or_default(), notes)?, asked)
    } else {
        let asked = [
            ("n_prompt", cell.prompt),
            ("n_gen", cell.decode),
            ("n_depth", cell.depth),
        ];
        match json(output, notes)? {
            Value::Array(mut answers) if answers.len() == 1 => (answers.remove(0), asked),
            _ => return Err(no_answer("it is no array of one measurement", notes)),
        }
    };
    for (field, value) in asked {
        if answer[field].as_u64() != Some(value) {
            let stated = quote(&answer[field].to_string());
            let why = format!("{field} is {stated}, asked was {value}");
            return Err(no_answer(&why, notes));
        }
    }
    Ok(answer)
}

/// Tokens and nanoseconds of the program's answer.
fn measurement(cell: &Cell, answer: &Value, notes: &mut Notebook) -> Result<(u64, u64), Stop> {
    let (tokens, timed_ns) = if is_batched(cell) {
        let seconds = answer["t_tg"].as_f64().unwrap_or_default();
        (cell.tokens(), (seconds * 1e9).round() as u64)
    } else {
        let samples = answer["samples_ns"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let [sample] = samples else {
            let why = format!("samples_ns has {} entries, expected one", samples.len());
            return Err(no_answer(&why, notes));
        };
        (
            cell.prompt + cell.decode,
            sample.as_u64().unwrap_or_default(),
        )
    };
    if timed_ns == 0 {
        return Err(no_answer("it states no time above zero", notes));
    }
    Ok((tokens, timed_ns))
}

fn json(text: &str, notes: &mut Notebook) -> Result<Value, Stop> {
    serde_json::from_str(text).map_err(|error| no_answer(&format!("no JSON: {error}"), notes))
}
