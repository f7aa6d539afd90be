//! From the traces of a run to the figures of its record: arms, identity, ratios, verdict.
//!
//! Not here: files, the machine, the build (`harness`), or any doubt about the traces (`audit`).

use std::collections::BTreeMap;

use crate::envelope::ResolvedEnvelope;
use crate::record::{ArmRecord, EffectiveRecord, IdentityRecord, Latencies, RatioRecord, Sample};
use crate::statistics::spread::{Distribution, outliers};
use crate::trace::{Line, ids_sha256, sha256_hex};
use crate::{Error, arm, oracle, statistics};

mod compare;
mod read;

pub(crate) use read::{Answer, answers};
use read::{Ending, Reading};

/// The lines of one trace file and the place its name gives it.
#[derive(Clone, Copy, Debug)]
pub struct ArmTrace<'a> {
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
    /// Whether every repetition of every arm ended well.
    pub complete: bool,
    /// Digest of the model every arm loaded.
    pub model_sha256: String,
    /// Digest of its tokenizer, if it has one.
    pub tokenizer_sha256: Option<String>,
    /// The settings every arm really ran with.
    pub effective: EffectiveRecord,
    /// `<arm>-<rep>` in the order the processes ran.
    pub order: Vec<String>,
    /// One record per arm.
    pub arms: BTreeMap<String, ArmRecord>,
    /// The ladder, as far as its arms completed.
    pub ratios: Vec<RatioRecord>,
    /// Whether all arms gave the same answers.
    pub identity: IdentityRecord,
    /// The verdict of `fused` over `instance-shared`.
    pub verdict: Option<String>,
}

/// Summarises `traces`, which stand in the order their processes ran.
pub fn summarise(envelope: &ResolvedEnvelope, traces: &[ArmTrace<'_>]) -> Result<Summary, Error> {
    let readings: Vec<Reading> = traces
        .iter()
        .map(|trace| read::trace(trace, envelope.requests_of(trace.arm)))
        .collect::<Result<_, _>>()?;
    let Some(first) = readings.first() else {
        return Err(Error::Trace {
            trace: format!("{}-0", envelope.run.arms[0]),
            problem: "there is none".to_owned(),
        });
    };
    for reading in &readings {
        reading.runs_like(first)?;
        if !envelope.run.arms.contains(&reading.arm) {
            let problem = "its arm was not asked for".to_owned();
            return Err(Error::Trace {
                trace: reading.name.clone(),
                problem,
            });
        }
    }
    let mut arms = BTreeMap::new();
    for name in &envelope.run.arms {
        arms.insert(name.clone(), arm_record(envelope, name, &readings)?);
    }
    let identity = compare::identity(envelope, &arms, &readings);
    let ratios = compare::ratios(envelope, &arms, &readings, &identity);
    Ok(Summary {
        complete: arms.values().all(|arm| arm.error.is_none()),
        model_sha256: first.model_sha256.clone(),
        tokenizer_sha256: first.tokenizer_sha256.clone(),
        effective: first.effective.clone(),
        order: readings
            .iter()
            .map(|reading| reading.name.clone())
            .collect(),
        verdict: compare::verdict(&ratios),
        arms,
        ratios,
        identity,
    })
}

/// The readings of one arm by repetition, every requested one exactly once.
fn repetitions<'a>(
    envelope: &ResolvedEnvelope,
    arm: &str,
    readings: &'a [Reading],
) -> Result<Vec<&'a Reading>, Error> {
    let wanted = envelope
        .run
        .arm_reps
        .get(arm)
        .copied()
        .unwrap_or(envelope.run.reps);
    let mut own: Vec<&Reading> = readings
        .iter()
        .filter(|reading| reading.arm == arm)
        .collect();
    own.sort_by_key(|reading| reading.rep);
    for rep in 0..wanted.max(own.len()) {
        let problem = match own.get(rep) {
            Some(reading) if reading.rep == rep && rep < wanted => continue,
            Some(reading) if reading.rep < rep => "stands there twice",
            Some(_) if rep >= wanted => "was not asked for",
            _ => "there is none",
        };
        let rep = own.get(rep).map_or(rep, |reading| reading.rep.min(rep));
        return Err(Error::Trace {
            trace: format!("{arm}-{rep}"),
            problem: problem.to_owned(),
        });
    }
    Ok(own)
}

fn arm_record(
    envelope: &ResolvedEnvelope,
    name: &str,
    readings: &[Reading],
) -> Result<ArmRecord, Error> {
    let arm = arm::named(name)?;
    let own = repetitions(envelope, name, readings)?;
    let error = own.iter().find_map(|reading| match &reading.ending {
        Ending::Error(message) => Some(message.clone()),
        Ending::End { .. } => None,
    });
    let mut samples: Vec<Sample> = Vec::new();
    let mut counters = None;
    for reading in &own {
        let Ending::End { counts, sample } = &reading.ending else {
            continue;
        };
        if counters.get_or_insert(*counts) != counts {
            return Err(Error::Trace {
                trace: reading.name.clone(),
                problem: "it counts other tokens than the repetition before it".to_owned(),
            });
        }
        samples.push(sample.clone());
    }
    let mut record = ArmRecord {
        reps: own.len(),
        completed: samples.len(),
        error,
        provenance: arm.provenance().to_owned(),
        cache: arm.cache.word().to_owned(),
        batched: arm.batched,
        note: note(envelope, arm),
        requests: None,
        prefill_tokens_computed: None,
        prefill_tokens_logical: None,
        prefix_tokens_hit: None,
        decode_tokens: None,
        carried_tokens: None,
        replayed_tokens: None,
        oracle_prefill_tokens: oracle::counts(arm, &envelope.workload_of(name).shape())?
            .prefill_tokens_computed,
        reuse_rate: None,
        wall_ns: None,
        prefill_ns: None,
        decode_ns: None,
        kv_bytes_peak: None,
        rss_bytes_peak: None,
        output_sha256: None,
        logits_sha256: None,
        samples,
        latencies: None,
        outliers: None,
        at_instrument_limit: None, // the instrument is no part of the traces
    };
    if let (None, Some(counts), Some(reading)) = (&record.error, counters, own.first()) {
        fill(&mut record, &counts, reading);
        let answers = own.iter().flat_map(|reading| reading.answers.values());
        record.latencies = latencies(answers);
    }
    Ok(record)
}

/// What a reader of the arm's figures must know.
fn note(envelope: &ResolvedEnvelope, arm: &arm::Arm) -> Option<String> {
    let (own, all) = (
        envelope.workload_of(arm.name).turns,
        envelope.workload.turns,
    );
    let short = (own < all).then(|| format!("plays the first {own} of {all} turns"));
    let notes: Vec<String> = arm
        .note
        .map(str::to_owned)
        .into_iter()
        .chain(short)
        .collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// When the requests of all repetitions had their first token, how long each further one took, and when they had all.
fn latencies<'a>(answers: impl Iterator<Item = &'a Answer>) -> Option<Latencies> {
    let (mut firsts, mut gaps, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        let (first, last) = (*answer.token_t_ns.first()?, *answer.token_t_ns.last()?);
        let further = answer.token_t_ns.len() as u64 - 1;
        firsts.push(first);
        gaps.extend(last.saturating_sub(first).checked_div(further));
        lasts.push(last);
    }
    Some(Latencies {
        ttft_ns: Distribution::new(firsts)?,
        tpot_ns: Distribution::new(gaps),
        e2e_ns: Distribution::new(lasts)?,
    })
}

/// The figures of an arm whose every repetition ended well.
fn fill(record: &mut ArmRecord, counts: &oracle::Counts, reading: &Reading) {
    let times = |of: fn(&Sample) -> u64| record.samples.iter().map(of).collect::<Vec<_>>();
    let (walls, prefills) = (times(|s| s.wall_ns), times(|s| s.prefill_ns));
    let (decodes, kv_peaks) = (times(|s| s.decode_ns), times(|s| s.kv_bytes_peak));
    let reuse = counts.prefix_tokens_hit as f64 / counts.prefill_tokens_logical as f64;
    let ids: Vec<u32> = reading
        .answers
        .values()
        .flat_map(|answer| answer.ids.clone())
        .collect();
    let hashes: String = reading
        .answers
        .values()
        .map(|a| a.logits_sha256.as_str())
        .collect();
    record.requests = Some(reading.answers.len() as u64);
    record.prefill_tokens_computed = Some(counts.prefill_tokens_computed);
    record.prefill_tokens_logical = Some(counts.prefill_tokens_logical);
    record.prefix_tokens_hit = Some(counts.prefix_tokens_hit);
    record.decode_tokens = Some(counts.decode_tokens);
    record.carried_tokens = Some(counts.carried_tokens);
    record.replayed_tokens = Some(counts.replayed_tokens);
    record.reuse_rate = Some(statistics::round6(reuse));
    let by_rep: Vec<f64> = walls.iter().map(|&wall_ns| wall_ns as f64).collect();
    record.outliers = Some(outliers(&by_rep));
    record.wall_ns = statistics::median_u64(&walls);
    record.prefill_ns = statistics::median_u64(&prefills);
    record.decode_ns = statistics::median_u64(&decodes);
    record.kv_bytes_peak = kv_peaks.into_iter().max();
    record.rss_bytes_peak = record.samples.iter().filter_map(|s| s.rss_bytes_peak).max();
    record.output_sha256 = Some(ids_sha256(&ids));
    record.logits_sha256 = Some(sha256_hex(hashes.as_bytes()));
}
