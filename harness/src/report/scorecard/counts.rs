//! Metrics that are counts: the same on any machine and in every repetition, so that they have no noise.
//!
//! Not here: times (`metrics`).

use serde_json::Value;
use workloads::accounting::Geometry;
use workloads::record::ArmRecord;
use workloads::trace::{Body, Line};

use super::bound::{Bound, Place};
use super::metrics::{Found, Library, Stop, arm_of, named, worst};
use super::verdict::Measured;
use crate::report::evidence::Anchored;
use crate::table::grouped;

/// Positions of a page (DESIGN, "Numeric contract").
const PAGE_POSITIONS: u64 = 64;
/// The share of its speed that decoding must keep (the unit of `kv_capacity_ratio_at_speed`).
const SPEED_KEPT: f64 = 0.95;

/// One arm of one run.
struct Counted<'a> {
    run: &'a Anchored,
    name: &'a str,
    arm: &'a ArmRecord,
}

impl<'a> Counted<'a> {
    fn at(place: &'a Place, library: &Library<'a>) -> Result<Self, Stop> {
        let run = library.run(place)?;
        let name = named(place.arm.as_ref())?;
        let arm = arm_of(&run.record, name)?;
        Ok(Self { run, name, arm })
    }

    /// A counter that must have been the same in all repetitions.
    fn count(&self, what: &str, value: Option<u64>) -> Result<u64, Stop> {
        let missing = || format!("{}: `{}` has no {what}", self.run.directory(), self.name);
        value.ok_or_else(|| Stop::Waits(missing()))
    }

    fn computed(&self) -> Result<u64, Stop> {
        self.count("prefill_tokens_computed", self.arm.prefill_tokens_computed)
    }

    /// A value without noise, held against `other`.
    fn found(&self, ours: f64, other: Option<f64>, against: &str, sentence: String) -> Found {
        Found::of_run(self.run, Measured::exact(ours, other), against, sentence)
    }
}

/// Prompt tokens that sharing saves an agent with a warm cache of its own, over those it could save: the least that such agents
/// compute, less what was computed here, over the same less the least that anybody must. What an evicting baseline computes
/// twice is no saving of ours.
pub(super) fn fusion_saving(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let ours = Counted::at(place, library)?;
        let own = arm_of(&ours.run.record, named(place.over.as_ref())?)?;
        let (computed, least) = (ours.computed()?, ours.arm.oracle_prefill_tokens);
        let kept = own.oracle_prefill_tokens;
        let most = kept.saturating_sub(least);
        if most == 0 {
            return Err(Stop::Refused(format!(
                "`{}` has nothing to share",
                place.run
            )));
        }
        let saved = kept as f64 - computed as f64;
        let sentence = format!(
            "In `{}` agents that keep all of their own text must compute {} prompt tokens; `{}` computes {}, and no less than \
             {} are possible.",
            place.run,
            grouped(kept),
            ours.name,
            grouped(computed),
            grouped(least)
        );
        let against = "the saving that the lengths allow, counted";
        Ok(ours.found(saved / most as f64, Some(1.0), against, sentence))
    })
}

/// Prompt tokens not computed over those that a cache without a limit would not compute.
pub(super) fn hits_of_optimal(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let it = Counted::at(place, library)?;
        let logical = it.count("prefill_tokens_logical", it.arm.prefill_tokens_logical)?;
        let (computed, least) = (it.computed()?, it.arm.oracle_prefill_tokens);
        let most = logical.saturating_sub(least);
        if most == 0 {
            return Err(Stop::Refused(format!(
                "`{}` has nothing to find",
                place.run
            )));
        }
        let pages = it.run.declared["run"]["kv_pages"].as_u64();
        let pages = pages.map_or_else(|| "?".to_owned(), grouped);
        let share = logical.saturating_sub(computed) as f64 / most as f64;
        let sentence = format!(
            "In `{}`, with {pages} pages, `{}` computes {} of {} prompt tokens; with room for everything it would be {}.",
            place.run,
            it.name,
            grouped(computed),
            grouped(logical),
            grouped(least)
        );
        let against = "the printed share of the offline optimum; ours is held against a cache without a limit";
        Ok(it.found(share, None, against, sentence))
    })
}

/// How many times as many positions as in half precision the same bytes hold, in the type of `from`'s first place, where the second
/// is half precision. Where it decodes slower than the bar allows, nothing is gained: one.
pub(super) fn capacity_at_speed(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    let [small, half] = bound.from.as_slice() else {
        let two = "it needs two places of `from`: a type of keys and values, and half precision";
        return Err(Stop::Refused(two.to_owned()));
    };
    let (small, half) = (Counted::at(small, library)?, Counted::at(half, library)?);
    let dtype = |it: &Counted<'_>| it.run.record.effective.kv_dtype.clone();
    if dtype(&half) != "f16" || small.run.declared["workload"] != half.run.declared["workload"] {
        let unlike = "the second place must ask the same of f16";
        return Err(Stop::Refused(unlike.to_owned()));
    }
    let bytes = |it: &Counted<'_>| it.count("kv_bytes_peak", it.arm.kv_bytes_peak);
    let decode = |it: &Counted<'_>| it.count("decode_ns", it.arm.decode_ns);
    let capacity = bytes(&half)? as f64 / bytes(&small)?.max(1) as f64;
    let speed = decode(&half)? as f64 / decode(&small)?.max(1) as f64;
    let gained = if speed < SPEED_KEPT { 1.0 } else { capacity };
    let sentence = format!(
        "`{}` holds {capacity:.3} times the positions of f16 in the same bytes and decodes at {speed:.2} of its speed, medians.",
        dtype(&small)
    );
    let mut found = small.found(gained, None, "the printed ratio", sentence);
    let other = half.found(gained, None, "", String::new());
    found.evidence.extend(other.evidence);
    found.runs.extend(other.runs);
    Ok(found)
}

/// Positions that hold keys and values over those that pages have, at the end of a run that evicted nothing: what was
/// computed of prompts, and every answered token but the last of each answer, which is fed with the next turn.
pub(super) fn live_over_allocated(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let it = Counted::at(place, library)?;
        let computed = it.computed()?;
        if computed != it.arm.oracle_prefill_tokens {
            return Err(Stop::Refused(format!("`{}` evicted pages", place.run)));
        }
        let carried = it.count("carried_tokens", it.arm.carried_tokens)?;
        let decoded = it.count("decode_tokens", it.arm.decode_tokens)?;
        let requests = it.count("requests", it.arm.requests)?;
        let bytes = it.count("kv_bytes_peak", it.arm.kv_bytes_peak)?;
        let live = computed + carried + decoded.saturating_sub(requests);
        let allocated = bytes / position_bytes(it.run)?;
        let sentence = format!(
            "In `{}` `{}` ends with {} positions in {} pages, room for {}.",
            place.run,
            it.name,
            grouped(live),
            grouped(allocated / PAGE_POSITIONS),
            grouped(allocated)
        );
        let against = "the printed figure";
        Ok(it.found(
            live as f64 / allocated.max(1) as f64,
            None,
            against,
            sentence,
        ))
    })
}

/// Bytes of keys and values of a position of the run's model in its cache type.
fn position_bytes(run: &Anchored) -> Result<u64, Stop> {
    let record = &run.record;
    let element = match record.effective.kv_dtype.as_str() {
        "f16" => 2,
        "f32" => 4,
        other => {
            return Err(Stop::Refused(format!(
                "no bytes known of an element of {other}"
            )));
        }
    };
    if !record.model.name.starts_with("smollm2-135m") {
        let message = format!("no sizes known of {}", record.model.name);
        return Err(Stop::Refused(message));
    }
    let it = Geometry::SMOLLM2_135M;
    Ok(2 * it.layers * it.kv_heads * it.head_dim * element)
}

/// Agents answered at once over those whose positions the cache has bytes for: the common beginning once, and of each agent
/// its own prompt and its answer but the last token.
pub(super) fn admitted_of_ideal(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let it = Counted::at(place, library)?;
        let declared = &it.run.declared;
        let number = |field: &Value, what: &str| {
            let missing = || Stop::Refused(format!("`{}` has no {what}", place.run));
            field.as_u64().ok_or_else(missing)
        };
        let work = &declared["workload"];
        let prefix = number(&work["prefix"], "workload.prefix")?;
        let decode = number(&work["decode"], "workload.decode")?;
        let part = number(&work["tree"]["tokens"], "workload.tree")?;
        let pages = number(&declared["run"]["kv_pages"], "run.kv_pages")?;
        let once = number(&work["turns"], "workload.turns")? == 1
            && number(&work["tree"]["levels"], "workload.tree")? == 1;
        if !once {
            return Err(Stop::Refused(format!(
                "`{}` asks agents more than once",
                place.run
            )));
        }
        let own = (part + decode).saturating_sub(1).max(1);
        let positions = pages * PAGE_POSITIONS;
        let ideal = positions.saturating_sub(prefix) / own;
        let at_once = most_at_once(library, it.run, it.name)?;
        let sentence = format!(
            "In `{}` `{}` answers {} agents at once in {} pages; their bytes would hold {}.",
            place.run,
            it.name,
            grouped(at_once),
            grouped(pages),
            grouped(ideal)
        );
        let against = "the number of agents whose positions fit, counted";
        let share = at_once as f64 / ideal.max(1) as f64;
        Ok(it.found(share, Some(1.0), against, sentence))
    })
}

/// The largest number of requests that one step of the arm decoded for, from its traces.
fn most_at_once(library: &Library<'_>, run: &Anchored, arm: &str) -> Result<u64, Stop> {
    let name = format!("trace/{}.jsonl", workloads::arm::stem(arm, 0));
    let path = library.root.join(run.directory()).join(&name);
    let broken = |error: &dyn std::fmt::Display| {
        Stop::Broken(format!("{}/{name}: {error}", run.directory()))
    };
    let text = std::fs::read_to_string(&path).map_err(|error| broken(&error))?;
    let mut most = 0;
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|error| broken(&error))?;
        if let Body::Finish { batch, .. } = line.body {
            most = batch.into_iter().fold(most, usize::max);
        }
    }
    Ok(most as u64)
}
