//! From the traces of a run to the figures of its record: samples, rates, needs, ratios, identity.
//!
//! Not here: reading one trace (`read`), files, the machine, the build (`harness`), or any doubt (`audit`).

use std::collections::BTreeMap;

use super::arm::{self, CellArm};
use super::{Cell, external, needs, stem};
use crate::Error;
use crate::envelope::ResolvedCells;
use crate::record::{
    CeilingsRecord, CellArmRecord, CellRecord, Divergence, EffectiveRecord, IdentityRecord,
    ModelNumbers,
};
use crate::statistics::spread::outliers;
use crate::statistics::{median, median_u64, round6};
use crate::trace::{Line, Program, ids_sha256, sha256_hex};

mod ratios;
mod read;

use read::{Ending, Reading};

/// The lines of one trace file and the place its name gives it.
#[derive(Clone, Copy, Debug)]
pub struct CellTrace<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The arm.
    pub arm: &'a str,
    /// The repetition.
    pub rep: usize,
    /// Every line, in order.
    pub lines: &'a [Line],
}

/// The part of a run record that follows from its traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Whether every repetition of every arm ended well in every cell.
    pub complete: bool,
    /// Digest of the model every arm loaded.
    pub model_sha256: String,
    /// Digest of its tokenizer, if it has one.
    pub tokenizer_sha256: Option<String>,
    /// The settings our arms really ran with.
    pub effective: EffectiveRecord,
    /// The traces, by file name without ending, in the order the processes ran.
    pub order: Vec<String>,
    /// One record per cell, in declared order.
    pub cells: Vec<CellRecord>,
    /// Whether our arms gave the same answers.
    pub identity: IdentityRecord,
}

/// What every figure rests on beside the traces.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// The model's numbers.
    pub numbers: &'a ModelNumbers,
    /// What the machine can do, if that was measured.
    pub ceilings: Option<&'a CeilingsRecord>,
}

/// Summarises `traces`, which stand in the order their processes ran.
pub fn summarise(
    envelope: &ResolvedCells,
    traces: &[CellTrace<'_>],
    grounds: Grounds<'_>,
) -> Result<Summary, Error> {
    let readings: Vec<Reading> = traces.iter().map(read::trace).collect::<Result<_, _>>()?;
    let ours = readings
        .iter()
        .find_map(|reading| Some((reading, reading.own.as_ref()?)));
    let Some((first, own)) = ours else {
        return Err(refused(
            &stem("cell", arm::OURS, 0),
            "no arm of ours left a trace",
        ));
    };
    for reading in &readings {
        let differs = reading.model_sha256 != first.model_sha256
            || reading
                .own
                .as_ref()
                .is_some_and(|other| other.effective != own.effective);
        if differs {
            let problem = format!("its model or settings are not those of {}", first.name);
            return Err(refused(&reading.name, &problem));
        }
    }
    check_programs(&readings)?;
    let mut cells = Vec::new();
    let mut first_divergence = None;
    for cell in &envelope.workload.cells {
        let of_cell: Vec<&Reading> = readings.iter().filter(|it| it.cell == cell.name).collect();
        let mut arms = BTreeMap::new();
        for name in &envelope.run.arms {
            let record = arm_record(
                envelope,
                cell,
                arm::named(name)?,
                &of_cell,
                &own.effective,
                grounds,
            )?;
            arms.insert(name.clone(), record);
        }
        let divergence = divergence(&arms, &of_cell);
        let ratios = ratios::ratios(&envelope.run.arms, &arms, divergence.as_ref());
        first_divergence = first_divergence.or(divergence);
        cells.push(CellRecord {
            name: cell.name.clone(),
            arms,
            ratios,
        });
    }
    Ok(Summary {
        complete: cells
            .iter()
            .all(|cell| cell.arms.values().all(|arm| arm.error.is_none())),
        model_sha256: first.model_sha256.clone(),
        tokenizer_sha256: own.tokenizer_sha256.clone(),
        effective: own.effective.clone(),
        order: readings
            .iter()
            .map(|reading| reading.name.clone())
            .collect(),
        identity: identity(envelope, &cells, first_divergence),
        cells,
    })
}

/// Refuses traces of different builds of a program, or of different model files. One that could not be started has no
/// digest and measured nothing.
fn check_programs(readings: &[Reading]) -> Result<(), Error> {
    let mut known: BTreeMap<&str, &Reading> = BTreeMap::new();
    for reading in readings {
        let Some(program) = reading.program.as_ref().filter(|it| it.sha256.is_some()) else {
            continue;
        };
        let build = |it: &Program| {
            let digests = (it.sha256.clone(), it.libraries_sha256.clone());
            (digests, it.version.clone(), it.arguments.get(1).cloned())
        };
        let first = *known.entry(&program.name).or_insert(reading);
        if first.program.as_ref().map(build) != Some(build(program)) {
            let problem = format!("its program or model file is not that of {}", first.name);
            return Err(refused(&reading.name, &problem));
        }
    }
    Ok(())
}

fn refused(trace: &str, problem: &str) -> Error {
    Error::Trace {
        trace: trace.to_owned(),
        problem: problem.to_owned(),
    }
}

fn arm_record(
    envelope: &ResolvedCells,
    cell: &Cell,
    arm: &CellArm,
    of_cell: &[&Reading],
    effective: &EffectiveRecord,
    grounds: Grounds<'_>,
) -> Result<CellArmRecord, Error> {
    let wanted = envelope
        .run
        .arm_reps
        .get(arm.name)
        .copied()
        .unwrap_or(envelope.run.reps);
    let mut own: Vec<&&Reading> = of_cell.iter().filter(|it| it.arm == arm.name).collect();
    own.sort_by_key(|reading| reading.rep);
    if !own.iter().map(|reading| reading.rep).eq(0..wanted) {
        let problem = format!("{} of {wanted} repetitions are there", own.len());
        return Err(refused(&stem(&cell.name, arm.name, 0), &problem));
    }
    let done = if arm.is_external() {
        &external::measured_cell(cell)
    } else {
        cell
    };
    let mut record = CellArmRecord {
        provenance: arm.provenance().to_owned(),
        reps: wanted,
        completed: 0,
        error: None,
        note: external::note(cell)
            .filter(|_| arm.is_external())
            .map(str::to_owned),
        needs: needs::needs(done, grounds.numbers, effective, grounds.ceilings),
        tokens_per_s: None,
        share_of_limit: None,
        output_sha256: None,
        logits_sha256: None,
        samples: Vec::new(),
        outliers: None,
        at_instrument_limit: None,
    };
    for reading in &own {
        match &reading.ending {
            Ending::Measured(sample) => record.samples.push(sample.clone()),
            Ending::Error(message) => {
                record.error.get_or_insert_with(|| message.clone());
            }
        }
    }
    record.completed = record.samples.len();
    if record.error.is_none() {
        fill(
            &mut record,
            own.first().and_then(|reading| reading.own.as_ref()),
        );
    }
    Ok(record)
}

/// The figures of an arm whose every repetition ended well.
fn fill(record: &mut CellArmRecord, own: Option<&read::Own>) {
    let rates: Vec<f64> = record.samples.iter().map(ratios::tokens_per_s).collect();
    let times: Vec<u64> = record
        .samples
        .iter()
        .map(|sample| sample.timed_ns)
        .collect();
    let timed: Vec<f64> = times.iter().map(|&timed_ns| timed_ns as f64).collect();
    record.outliers = Some(outliers(&timed));
    record.tokens_per_s = median(&rates).map(round6);
    record.share_of_limit = record
        .needs
        .limit_ns
        .zip(median_u64(&times))
        .map(|(limit_ns, timed_ns)| round6(limit_ns as f64 / timed_ns as f64));
    let Some(own) = own else { return };
    let ids: Vec<u32> = own.answers.values().flat_map(|it| it.ids.clone()).collect();
    let hashes: String = own
        .answers
        .values()
        .map(|it| it.logits_sha256.as_str())
        .collect();
    record.output_sha256 = Some(ids_sha256(&ids));
    record.logits_sha256 = Some(sha256_hex(hashes.as_bytes()));
}

/// The first of our completed repetitions, in the order they ran, that differs from the first.
fn divergence(arms: &BTreeMap<String, CellArmRecord>, of_cell: &[&Reading]) -> Option<Divergence> {
    let completed =
        |reading: &&&Reading| arms.get(&reading.arm).is_some_and(|it| it.error.is_none());
    let mut runs = of_cell
        .iter()
        .filter(completed)
        .filter_map(|reading| Some((*reading, reading.own.as_ref()?)));
    let (_, first) = runs.next()?;
    runs.find_map(|(reading, own)| {
        own.answers.iter().find_map(|(&(agent, turn), answer)| {
            let position = match first.answers.get(&(agent, turn)) {
                Some(expected) => expected.difference(answer)?,
                None => Some(0),
            };
            Some(Divergence {
                cell: Some(reading.cell.clone()),
                arm: reading.arm.clone(),
                rep: reading.rep,
                agent,
                turn,
                position,
            })
        })
    })
}

fn identity(
    envelope: &ResolvedCells,
    cells: &[CellRecord],
    first_divergence: Option<Divergence>,
) -> IdentityRecord {
    let completed = |name: &&String| {
        arm::named(name).is_ok_and(|arm| !arm.is_external())
            && cells
                .iter()
                .all(|cell| cell.arms.get(*name).is_some_and(|it| it.error.is_none()))
    };
    IdentityRecord {
        equal: first_divergence.is_none(),
        arms: envelope
            .run
            .arms
            .iter()
            .filter(completed)
            .cloned()
            .collect(),
        requests: envelope.workload.cells.iter().map(Cell::requests).sum(),
        first_divergence,
    }
}
