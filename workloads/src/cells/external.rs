//! llama.cpp's benchmarks: which command line asks for a cell, and what their answer measures.
//!
//! Not here: starting one (`baselines`). Both tables are in audit/FORMAT.md.

use serde_json::Value;

use super::Cell;

/// Positions by which a context of several sequences is cut.
const CONTEXT_STEP: usize = 256;

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// One sequence.
    Single,
    /// Several sequences that decode together.
    Batched,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Positions or tokens.
    pub tokens: u64,
    /// What the program says they took.
    pub timed_ns: u64,
}

impl Bench {
    /// The program that can be asked for `cell`.
    pub fn of(cell: &Cell) -> Self {
        if cell.is_decode() && cell.agents > 1 {
            Self::Batched
        } else {
            Self::Single
        }
    }

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "llama-bench",
            Self::Batched => "llama-batched-bench",
        }
    }
}

/// The work that is measured where `cell` is asked for: one prompt at a time.
pub fn measured_cell(cell: &Cell) -> Cell {
    let agents = if cell.is_decode() { cell.agents } else { 1 };
    Cell {
        agents,
        ..cell.clone()
    }
}

/// What a reader must know where the program cannot be asked for the cell itself.
pub fn note(cell: &Cell) -> Option<&'static str> {
    match Bench::of(cell) {
        Bench::Single if cell.agents > 1 => {
            Some("one prompt at a time: llama-bench has no way to ask for several")
        }
        Bench::Batched if cell.shared > 0 && cell.shared < cell.depth => Some(
            "every agent has a copy of its own: llama-batched-bench cannot share a part of a prompt",
        ),
        _ => None,
    }
}

/// Its arguments for `cell`.
pub fn arguments(cell: &Cell, threads: usize, flash_attention: bool, model: &str) -> Vec<String> {
    let number = |value: usize| value.to_string();
    let mut words: Vec<String> = vec!["-m".into(), model.into(), "-t".into(), number(threads)];
    match Bench::of(cell) {
        Bench::Single => {
            let (prompt, decode) = (number(cell.prompt), number(cell.decode));
            words.extend(["-fa".into(), number(usize::from(flash_attention))]);
            words.extend([
                "-p".into(),
                prompt,
                "-n".into(),
                decode,
                "-d".into(),
                number(cell.depth),
            ]);
            words.extend(["-r", "1", "-o", "json"].map(String::from));
        }
        Bench::Batched => {
            let shares = cell.shared > 0 && cell.shared == cell.depth;
            let whole = |positions: usize| positions.next_multiple_of(CONTEXT_STEP);
            let context = if shares {
                whole(cell.depth + cell.agents * (cell.decode + 1))
            } else {
                cell.agents * whole(cell.depth + cell.decode + 1)
            };
            let (depth, decode) = (number(cell.depth.max(1)), number(cell.decode));
            words.extend(["-c".into(), number(context), "-npp".into(), depth]);
            words.extend(["-ntg".into(), decode, "-npl".into(), number(cell.agents)]);
            if shares {
                words.extend(["-pps", "-kvu"].map(String::from));
            }
            let attention = if flash_attention { "on" } else { "off" };
            words.extend(["--output-format", "jsonl", "-fa", attention].map(String::from));
        }
    }
    words
}

/// What `output` measures, if it is the program's answer for `cell`.
pub fn measurement(cell: &Cell, output: &str) -> Result<Measured, String> {
    match Bench::of(cell) {
        Bench::Single => single(cell, output),
        Bench::Batched => batched(cell, output),
    }
}

fn single(cell: &Cell, output: &str) -> Result<Measured, String> {
    let answers: Vec<Value> =
        serde_json::from_str(output).map_err(|error| format!("not a JSON array: {error}"))?;
    let [answer] = answers.as_slice() else {
        return Err(format!("{} measurements, not one", answers.len()));
    };
    let asked = [
        ("n_prompt", cell.prompt),
        ("n_gen", cell.decode),
        ("n_depth", cell.depth),
    ];
    for (field, value) in asked {
        agrees(answer, field, value)?;
    }
    let samples = answer["samples_ns"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let [sample] = samples else {
        return Err(format!("samples_ns has {} entries, not one", samples.len()));
    };
    let tokens = (cell.prompt + cell.decode) as u64;
    taken(tokens, sample.as_u64())
}

fn batched(cell: &Cell, output: &str) -> Result<Measured, String> {
    let line = output.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or("no line with a JSON object")?;
    let answer: Value =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let asked = [
        ("pp", cell.depth.max(1)),
        ("tg", cell.decode),
        ("pl", cell.agents),
    ];
    for (field, value) in asked {
        agrees(&answer, field, value)?;
    }
    let timed_ns = answer["t_tg"]
        .as_f64()
        .map(|seconds| (seconds * 1e9).round() as u64);
    taken(cell.tokens(), timed_ns)
}

fn agrees(answer: &Value, field: &str, asked: usize) -> Result<(), String> {
    if answer[field].as_u64() == Some(asked as u64) {
        return Ok(());
    }
    Err(format!("{field} is {}, asked was {asked}", answer[field]))
}

fn taken(tokens: u64, timed_ns: Option<u64>) -> Result<Measured, String> {
    match timed_ns {
        Some(timed_ns) if timed_ns > 0 => Ok(Measured { tokens, timed_ns }),
        _ => Err("it states no time above zero".to_owned()),
    }
}
