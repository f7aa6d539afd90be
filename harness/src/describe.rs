//! `describe session`: what every arm must count for a shape, by closed form. Provenance MODELED:
//! nothing is run.
//!
//! Not here: the formulas (`workloads::oracle`).

use std::io::Write;

use serde_json::{Map, Value, json};
use workloads::arm::{ARMS, SERVERS};
use workloads::envelope::ResolvedEnvelope;
use workloads::oracle::{self, Counts, Shape};

use crate::cli::SessionArguments;
use crate::error::Error;
use crate::table::{Table, counted, grouped};

/// Prints the counts of all arms.
pub fn session(arguments: &SessionArguments, out: &mut dyn Write) -> Result<u8, Error> {
    let shape = Shape {
        agents: arguments.agents,
        turns: arguments.turns,
        prefix: arguments.prefix,
        decode: arguments.decode,
        result: arguments.result,
        workers: arguments.workers,
        ..Shape::default()
    };
    let counts: Vec<Counts> = ARMS
        .iter()
        .map(|arm| oracle::counts(arm, &shape).map_err(|error| Error::Usage(error.to_string())))
        .collect::<Result<_, _>>()?;
    if arguments.json {
        let arms: Map<String, Value> = ARMS
            .iter()
            .zip(&counts)
            .map(|(arm, it)| (arm.name.to_owned(), json!(it)))
            .collect();
        let document = json!({ "provenance": "MODELED", "shape": shape, "arms": arms });
        writeln!(out, "{document:#}")?;
    } else {
        write_text(&shape, &counts, out)?;
    }
    Ok(0)
}

/// A shape in one line.
pub fn words(shape: &Shape) -> String {
    format!(
        "{} x {}, prefix {}, decode {}, result {} tokens, {}",
        counted(shape.agents as usize, "agent"),
        counted(shape.turns as usize, "turn"),
        shape.prefix,
        shape.decode,
        shape.result,
        counted(shape.workers as usize, "worker"),
    )
}

/// The shape an envelope asks for, and which arms play less of it.
pub fn words_of(envelope: &ResolvedEnvelope) -> String {
    let short = envelope.run.arm_turns.iter();
    let short = short.map(|(arm, &turns)| format!(", {arm} only {}", counted(turns, "turn")));
    let workload = &envelope.workload;
    let clocked = workload.arrivals.map(|it| format!(", {it}"));
    let slo = workload.slo.map(|it| format!(", good within {it}"));
    let more = short.chain(clocked).chain(slo);
    words(&workload.shape()) + &more.collect::<String>()
}

fn write_text(shape: &Shape, counts: &[Counts], out: &mut dyn Write) -> Result<(), Error> {
    writeln!(
        out,
        "{} (MODELED: closed forms, nothing was run)\n",
        words(shape)
    )?;
    let mut table = Table::new(&[
        "arm",
        "prefill computed",
        "reused",
        "decoded",
        "vs naive",
        "stands for",
    ]);
    let floor = counts
        .first()
        .map_or(0, |naive| naive.prefill_tokens_computed);
    for (arm, count) in ARMS.iter().zip(counts) {
        let reused = count.prefix_tokens_hit as f64 / count.prefill_tokens_logical.max(1) as f64;
        let times = floor as f64 / count.prefill_tokens_computed.max(1) as f64;
        table.row([
            arm.name.to_owned(),
            grouped(count.prefill_tokens_computed),
            format!("{:.1} %", reused * 100.0),
            grouped(count.decode_tokens),
            format!("{times:.2}x"),
            arm.stands_for.to_owned(),
        ]);
    }
    writeln!(out, "{}", table.words_last().render())?;
    writeln!(
        out,
        "prefill computed: prompt tokens whose keys and values are computed anew; reused: found in a cache.\n\
         vs naive: how many times fewer than the floor nobody ships; the arm to beat is instance-shared.\n\
         Other engines count for themselves. Each is asked as one of these: {}.",
        beside().join(", ")
    )?;
    Ok(())
}

/// Other engines' arms, each with ours that keeps and batches as it does.
fn beside() -> Vec<String> {
    let pairs = SERVERS.iter().filter_map(|arm| {
        let ours = arm.of_ours_alike()?.name;
        Some(format!("{} as {ours}", arm.name))
    });
    pairs.collect()
}
