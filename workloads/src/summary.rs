//! From the traces of a run to the figures of its record: arms, identity, ratios, verdict.
//!
//! Not here: files, the machine, the build (`harness`), or any doubt about the traces (`audit`).

use std::collections::BTreeMap;

use crate::envelope::ResolvedEnvelope;
use crate::record::{ArmRecord, EffectiveRecord, IdentityRecord, Latencies, RatioRecord, Sample};
use crate::statistics::spread::{Distribution, outliers};
use crate::trace::{Line, ids_sha256, sha256_hex};
use crate::{Error, arm, oracle, statistics};

mod clocked;
mod compare;
mod read;
mod score;
mod server;

use compare::{ByTurn, Compared};
pub(crate) use read::{Answer, answers};
use read::{Ending, Place, Reading, Times};
use server::Answered;

/// The lines of one trace file and the place its name gives it.
#[derive(Clone, Copy, Debug)]
pub struct ArmTrace<'a> {
    /// The arm.
    pub arm: &'a str,
    /// The repetition.
    pub rep: usize,
    /// Every line, in order.
    pub lines: &'a [Line],
    /// The trace of its score, where another engine answered and ours has read it.
    pub score: Option<&'a [Line]>,
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
    asked_for(envelope, traces)?;
    let (theirs, ours): (Vec<_>, Vec<_>) =
        traces.iter().partition(|trace| arm::is_server(trace.arm));
    let requests = |trace: &ArmTrace<'_>| envelope.requests_of(trace.arm);
    let readings: Vec<Reading> = ours
        .into_iter()
        .map(|trace| read::trace(trace, requests(trace)))
        .collect::<Result<_, _>>()?;
    let answered: Vec<Answered> = theirs
        .into_iter()
        .map(|trace| server::trace(trace, requests(trace)))
        .collect::<Result<_, _>>()?;
    let Some(first) = readings.first() else {
        let ours = |name: &&String| !arm::is_server(name);
        let name = envelope.run.arms.iter().find(ours);
        return Err(Error::Trace {
            trace: format!("{}-0", name.map_or("fused", String::as_str)),
            problem: "there is none".to_owned(),
        });
    };
    for reading in &readings {
        reading.runs_like(first)?;
    }
    for reading in &answered {
        reading.is_of(&first.model_sha256, &first.place.name)?;
    }
    let mut arms = BTreeMap::new();
    for name in &envelope.run.arms {
        let arm = arm::named(name)?;
        let mut record = if arm.is_server() {
            server::record(envelope, arm, &repetitions(envelope, name, &answered)?)?
        } else {
            our_record(envelope, arm, &repetitions(envelope, name, &readings)?)?
        };
        if record.error.is_none() {
            let own: Vec<_> = traces.iter().filter(|it| it.arm == name).collect();
            clocked::fill(&mut record, &own, envelope.workload.slo.as_ref());
        }
        arms.insert(name.clone(), record);
    }
    let identity = compare::identity(envelope, &arms, &readings);
    let compared = Compared {
        envelope,
        arms: &arms,
        computed: computed_by_turn(&readings, &answered),
        identity: &identity,
    };
    let ratios = compared.ratios();
    Ok(Summary {
        complete: arms.values().all(|arm| arm.error.is_none()),
        model_sha256: first.model_sha256.clone(),
        tokenizer_sha256: first.tokenizer_sha256.clone(),
        effective: first.effective.clone(),
        order: traces
            .iter()
            .map(|trace| arm::stem(trace.arm, trace.rep))
            .collect(),
        verdict: compare::verdict(&ratios),
        arms,
        ratios,
        identity,
    })
}

/// Refuses a trace of an arm that the envelope does not name.
fn asked_for(envelope: &ResolvedEnvelope, traces: &[ArmTrace<'_>]) -> Result<(), Error> {
    let asked = |name: &str| envelope.run.arms.iter().any(|arm| arm == name);
    match traces.iter().find(|trace| !asked(trace.arm)) {
        Some(trace) => Err(Place::of(trace).refuse("its arm was not asked for")),
        None => Ok(()),
    }
}

/// What each arm computed, turn by turn, in the first of its repetitions that ran.
fn computed_by_turn<'a>(readings: &'a [Reading], answered: &'a [Answered<'_>]) -> ByTurn<'a> {
    let ours = (readings.iter()).map(|it| (it.place.arm.as_str(), &it.computed_by_turn));
    let theirs = (answered.iter()).map(|it| (it.place.arm.as_str(), &it.computed_by_turn));
    let mut by_arm = ByTurn::new();
    for (arm, computed) in ours.chain(theirs) {
        by_arm.entry(arm).or_insert(computed);
    }
    by_arm
}

/// The readings of one arm by repetition, every requested one exactly once.
fn repetitions<'a, R: AsRef<Place>>(
    envelope: &ResolvedEnvelope,
    arm: &str,
    readings: &'a [R],
) -> Result<Vec<&'a R>, Error> {
    let wanted = envelope
        .run
        .arm_reps
        .get(arm)
        .copied()
        .unwrap_or(envelope.run.reps);
    let rep_of = |reading: &R| reading.as_ref().rep;
    let mut own: Vec<&R> = (readings.iter())
        .filter(|reading| reading.as_ref().arm == arm)
        .collect();
    own.sort_by_key(|reading| rep_of(reading));
    for rep in 0..wanted.max(own.len()) {
        let problem = match own.get(rep).map(|reading| rep_of(reading)) {
            Some(found) if found == rep && rep < wanted => continue,
            Some(found) if found < rep => "stands there twice",
            Some(_) if rep >= wanted => "was not asked for",
            _ => "there is none",
        };
        let rep = own.get(rep).map_or(rep, |reading| rep_of(reading).min(rep));
        return Err(Error::Trace {
            trace: arm::stem(arm, rep),
            problem: problem.to_owned(),
        });
    }
    Ok(own)
}

fn our_record(
    envelope: &ResolvedEnvelope,
    arm: &arm::Arm,
    own: &[&Reading],
) -> Result<ArmRecord, Error> {
    let error = own.iter().find_map(|reading| match &reading.ending {
        Ending::Error(message) => Some(message.clone()),
        Ending::End { .. } => None,
    });
    let mut samples: Vec<Sample> = Vec::new();
    let mut counters = None;
    for reading in own {
        let Ending::End { counts, sample } = &reading.ending else {
            continue;
        };
        if counters.get_or_insert(*counts) != counts {
            let problem = "it counts other tokens than the repetition before it";
            return Err(reading.place.refuse(problem));
        }
        samples.push(sample.clone());
    }
    let mut record = unfilled(envelope, arm, own.len(), error, samples)?;
    if let (None, Some(counts), Some(reading)) = (&record.error, counters, own.first()) {
        fill(&mut record, &counts, reading);
        let answers = own.iter().flat_map(|reading| reading.answers.values());
        record.latencies = latencies(answers.map(Answer::times));
    }
    Ok(record)
}

/// The record of an arm before anything is known of its figures.
fn unfilled(
    envelope: &ResolvedEnvelope,
    arm: &arm::Arm,
    reps: usize,
    error: Option<String>,
    samples: Vec<Sample>,
) -> Result<ArmRecord, Error> {
    let shape = envelope.workload_of(arm.name).shape();
    Ok(ArmRecord {
        reps,
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
        oracle_prefill_tokens: oracle::counts(arm, &shape)?.prefill_tokens_computed,
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
        goodput: None,
        outliers: None,
        at_instrument_limit: None, // the instrument is no part of the traces
        server: None,
        score: None,
    })
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
fn latencies(times: impl Iterator<Item = Option<Times>>) -> Option<Latencies> {
    let (mut firsts, mut gaps, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
    for it in times {
        let it = it?;
        firsts.push(it.first_ns);
        gaps.extend(it.gap_ns());
        lasts.push(it.last_ns);
    }
    Some(Latencies {
        ttft_ns: Distribution::new(firsts)?,
        tpot_ns: Distribution::new(gaps),
        e2e_ns: Distribution::new(lasts)?,
        scheduled_ttft_ns: None,
        scheduled_e2e_ns: None,
    })
}

/// The figures of an arm of ours whose every repetition ended well.
fn fill(record: &mut ArmRecord, counts: &oracle::Counts, reading: &Reading) {
    let times =
        |of: fn(&Sample) -> Option<u64>| record.samples.iter().filter_map(of).collect::<Vec<_>>();
    let (prefills, decodes) = (times(|s| s.prefill_ns), times(|s| s.decode_ns));
    let kv_bytes_peak = times(|s| s.kv_bytes_peak).into_iter().max();
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
    record.prefill_ns = statistics::median_u64(&prefills);
    record.decode_ns = statistics::median_u64(&decodes);
    record.kv_bytes_peak = kv_bytes_peak;
    record.output_sha256 = Some(ids_sha256(&ids));
    record.logits_sha256 = Some(sha256_hex(hashes.as_bytes()));
    fill_common(record);
}

/// The figures that every arm has whose every repetition ended well, from its samples and counts.
fn fill_common(record: &mut ArmRecord) {
    let walls: Vec<u64> = record.samples.iter().map(|sample| sample.wall_ns).collect();
    let by_rep: Vec<f64> = walls.iter().map(|&wall_ns| wall_ns as f64).collect();
    record.outliers = Some(outliers(&by_rep));
    record.wall_ns = statistics::median_u64(&walls);
    record.rss_bytes_peak = record.samples.iter().filter_map(|s| s.rss_bytes_peak).max();
    let reuse = record
        .prefix_tokens_hit
        .zip(record.prefill_tokens_logical)
        .map(|(hit, logical)| hit as f64 / logical as f64);
    record.reuse_rate = reuse.map(statistics::round6);
}
