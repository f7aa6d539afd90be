//! Rows as `llama-bench -o json` writes them, one for each arm of each cell of engine work.
//!
//! That layout speaks of one sequence: `n_prompt` or `n_gen` tokens in `samples_ns`. Cells of several agents cannot be said
//! in it and are named as left out. Not here: rates and times themselves, which are those of the run record.

use serde_json::{Map, Value, json};
use workloads::arm::stem;
use workloads::record::{CellArmRecord, CellRecord};
use workloads::trace::{Body, Line};

use super::{Exported, check_arms, origin};
use crate::error::Error;
use crate::files;
use crate::world::World;

const LAYOUT: &str = "llama-bench -o json";

/// What a cell asks for.
struct Shape {
    prompt: u64,
    decode: u64,
    depth: u64,
    agents: u64,
}

/// Every row of a run, of `arms` alone where any is named.
pub(super) fn rows(
    exported: &Exported,
    arms: &[String],
    world: &World,
) -> Result<Vec<Value>, Error> {
    let run = &exported.run;
    let Some(cells) = &run.record.cells else {
        return Err(Error::Usage(format!(
            "{} is a session; llama-bench has rows of engine work. Layouts of sessions are vllm-bench and aiperf, or csv \
             and parquet",
            exported.source.run
        )));
    };
    let names = cells.iter().flat_map(|cell| cell.arms.keys());
    check_arms(arms, names.map(String::as_str))?;
    let mut rows = Vec::new();
    for cell in cells {
        let shape = shape(exported, &cell.name)?;
        if shape.agents != 1 {
            world.say(&format!(
                "left out: {}, of {} agents; a row of llama-bench speaks of one sequence (csv and parquet have it)",
                cell.name, shape.agents
            ));
            continue;
        }
        for (name, arm) in &cell.arms {
            let wanted = arms.is_empty() || arms.contains(name);
            if wanted && !arm.samples.is_empty() {
                rows.push(row(exported, cell, &shape, name, arm)?);
            }
        }
    }
    if rows.is_empty() {
        return Err(Error::Unreachable(
            "no cell of one agent completed in these arms, so there is nothing to export"
                .to_owned(),
        ));
    }
    Ok(rows)
}

fn shape(exported: &Exported, cell: &str) -> Result<Shape, Error> {
    let cells = exported.run.asked["workload"]["cells"].as_array();
    let declared = cells.into_iter().flatten().find(|it| it["name"] == cell);
    let number = |name: &str| declared.and_then(|it| it[name].as_u64());
    let shape = || {
        Some(Shape {
            prompt: number("prompt")?,
            decode: number("decode")?,
            depth: number("depth")?,
            agents: number("agents")?,
        })
    };
    shape().ok_or_else(|| Error::Broken(format!("envelope.json does not say what {cell} asks")))
}

fn row(
    exported: &Exported,
    cell: &CellRecord,
    shape: &Shape,
    name: &str,
    arm: &CellArmRecord,
) -> Result<Value, Error> {
    let mut row = match external(exported, &cell.name, name, arm)? {
        Some(theirs) => theirs,
        None => ours(exported),
    };
    let samples_ns: Vec<u64> = arm.samples.iter().map(|it| it.timed_ns).collect();
    let rates = arm.samples.iter().filter(|it| it.timed_ns > 0);
    let samples_ts: Vec<f64> = rates
        .map(|it| it.tokens as f64 * 1e9 / it.timed_ns as f64)
        .collect();
    let times: Vec<f64> = samples_ns.iter().map(|&it| it as f64).collect();
    let stated = json!({
        "model_filename": exported.run.record.model.name,
        "n_prompt": shape.prompt,
        "n_gen": shape.decode,
        "n_depth": shape.depth,
        "avg_ns": samples_ns.iter().sum::<u64>() / samples_ns.len() as u64,
        "stddev_ns": deviation(&times).map(|it| it as u64),
        "avg_ts": mean(&samples_ts),
        "stddev_ts": deviation(&samples_ts),
        "samples_ns": samples_ns,
        "samples_ts": samples_ts,
        "fak": fak(exported, cell, name, arm),
    });
    if let Value::Object(stated) = stated {
        row.extend(stated);
    }
    Ok(row.into())
}

/// What our engine can say of what llama-bench states of itself; the rest of its fields have no counterpart.
fn ours(exported: &Exported) -> Map<String, Value> {
    let record = &exported.run.record;
    let run = &exported.run.asked["run"];
    let said = json!({
        "build_commit": record.build.commit,
        "cpu_info": record.machine.cpu,
        "gpu_info": "",
        "backends": format!("fak CPU, {} kernels, mode {}", record.effective.kernels, record.effective.mode),
        "model_type": record.model.name,
        "n_ubatch": run["chunk_tokens"],
        "n_threads": record.effective.threads,
        "type_k": record.effective.kv_dtype,
        "type_v": record.effective.kv_dtype,
        "n_gpu_layers": 0,
        "test_time": exported.source.date(),
    });
    match said {
        Value::Object(said) => said,
        _ => Map::new(),
    }
}

/// What llama-bench itself said in the first repetition that completed; `None` for an arm of ours.
fn external(
    exported: &Exported,
    cell: &str,
    name: &str,
    arm: &CellArmRecord,
) -> Result<Option<Map<String, Value>>, Error> {
    let Some(first) = arm.samples.first().filter(|_| name.contains(':')) else {
        return Ok(None);
    };
    let path = format!("trace/{cell}.{}.jsonl", stem(name, first.rep));
    let path = exported.run.directory.join(path);
    let lines = files::read_text(&path)?;
    let output =
        lines
            .lines()
            .find_map(|line| match serde_json::from_str::<Line>(line).ok()?.body {
                Body::External { output, .. } => Some(output),
                _ => None,
            });
    let said = output.and_then(|it| serde_json::from_str::<Vec<Map<String, Value>>>(&it).ok());
    let said = said.and_then(|rows| rows.into_iter().next());
    said.map(Some)
        .ok_or_else(|| Error::Broken(format!("{}: no answer of llama-bench", path.display())))
}

fn fak(exported: &Exported, cell: &CellRecord, name: &str, arm: &CellArmRecord) -> Value {
    let mut said = origin::of_run(exported, LAYOUT);
    let ratios = cell.ratios.iter();
    let ratios: Vec<_> = ratios
        .filter(|it| it.arm == name || it.denominator == name)
        .collect();
    let more = json!({
        "cell": cell.name,
        "arm": name,
        "provenance": arm.provenance,
        "arm_note": arm.note,
        "reps": arm.reps,
        "completed": arm.completed,
        "tokens_per_s": arm.tokens_per_s,
        "ratios": ratios,
        "definitions": {
            "samples_ns": "time of the timed steps of a repetition, a process of its own each; loading, tokenizing and what fills the cache before are outside it",
            "samples_ts": "tokens of those steps over that time; sampling is in it where tokens are generated by fak, and is not in llama-bench's own",
            "avg_ts": "mean of samples_ts; tokens_per_s here is their median",
            "stddev": "squares divided by the number of repetitions less one; null of one repetition",
        },
    });
    if let Value::Object(more) = more {
        said.extend(more);
    }
    said.into()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Of a sample: the squares are divided by their number less one.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}
