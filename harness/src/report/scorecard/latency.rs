//! The metric of first tokens: how long somebody waits who comes back to a text that is in the cache.
//!
//! Times are read from traces, request by request. Not here: times of whole runs (`metrics`).

use workloads::statistics::{Interval, median};
use workloads::trace::Line;

use super::bound::Bound;
use super::files::program_words;
use super::metrics::{Found, Library, Stop, arm_of, judged, named, sides, worst_by};
use super::verdict::{Measured, Noise};
use crate::report::evidence::Anchored;
use crate::{requests, sealed};

/// Milliseconds from a request to its first token, for requests that continue a session: the median of each repetition, and of
/// those the median. The other side is what the median pair of repetitions makes of ours.
pub(super) fn warm_first_token(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst_by(bound, advantage, |place| {
        let run = library.run(place)?;
        let record = &run.record;
        let (arm, over) = (named(place.arm.as_ref())?, named(place.over.as_ref())?);
        let differs = sides(run, arm, over)?;
        let (ours, theirs) = (warm(library, run, arm)?, warm(library, run, over)?);
        let pairs = ours.iter().filter(|(_, ms)| *ms > 0.0);
        let pairs = pairs.filter_map(|(rep, ours_ms)| {
            let (_, theirs_ms) = theirs.iter().find(|(its, _)| its == rep)?;
            Some(theirs_ms / ours_ms)
        });
        let (ratio, noise) = judged(Some(pairs.collect()))?;
        let times = |of: &[(usize, f64)]| middle(&of.iter().map(|(_, ms)| *ms).collect::<Vec<_>>());
        let (ours_ms, theirs_ms) = (times(&ours)?, times(&theirs)?);
        let other = ratio * ours_ms;
        let turned = |it: Interval| Interval {
            low: other / it.high,
            high: other / it.low,
        };
        let noise = match noise {
            Noise::Pairs { n, interval } => Noise::Pairs {
                n,
                interval: interval.map(turned),
            },
            Noise::Exact => Noise::Exact,
        };
        let sentence = format!(
            "In `{}` the first token of a turn that goes on takes `{arm}` {ours_ms:.1} ms and `{over}` {theirs_ms:.1} ms, medians.",
            place.run
        );
        let server = arm_of(record, over)?.server.as_ref();
        let against = format!("{over}, {}", program_words(server.map(|it| &it.program)));
        let measured = Measured {
            noise,
            differs,
            missing_peers: bound.missing.clone(),
            ..Measured::exact(ours_ms, Some(other))
        };
        Ok(Found::of_run(run, measured, against, sentence))
    })
}

/// How many times as long the other side takes, at the worst end of what is known.
fn advantage(found: &Found) -> f64 {
    let ours = match found.measured.noise {
        Noise::Pairs {
            interval: Some(it), ..
        } => it.high,
        Noise::Pairs { .. } | Noise::Exact => found.measured.ours,
    };
    found.measured.other.unwrap_or_default() / ours
}

/// The repetitions of an arm, each with its median in milliseconds.
fn warm(library: &Library<'_>, run: &Anchored, arm: &str) -> Result<Vec<(usize, f64)>, Stop> {
    let samples = &arm_of(&run.record, arm)?.samples;
    let reps = samples.iter().map(|it| it.rep);
    reps.map(|rep| {
        let name = format!("trace/{}.jsonl", workloads::arm::stem(arm, rep));
        let trace = sealed::read_trace(&library.root.join(run.directory()), name);
        let trace = trace.map_err(|it| Stop::Broken(format!("{}/{it}", run.directory())))?;
        let lines = trace.map(|it| it.lines).unwrap_or_default();
        Ok((rep, middle(&going_on(&lines))?))
    })
    .collect()
}

/// Milliseconds to the first token of each request that is not the first of its session; none where an answer of several tokens
/// came whole.
fn going_on(lines: &[Line]) -> Vec<f64> {
    let requests = requests::of(lines).into_iter().filter(|it| it.turn > 0);
    let firsts = requests.filter_map(|it| it.ttft_ns);
    firsts.map(|ns| ns as f64 / 1e6).collect()
}

fn middle(values: &[f64]) -> Result<f64, Stop> {
    let none = || Stop::Waits("no request that goes on has a first token of its own".to_owned());
    median(values).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_requests_that_go_on_count_and_whole_answers_of_several_tokens_do_not() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
        let firsts = |run: &str, arm: &str| {
            let name = format!("trace/{}.jsonl", workloads::arm::stem(arm, 0));
            let trace = sealed::read_trace(&results.join(run), name).unwrap();
            going_on(&trace.unwrap().lines)
        };
        let warm = "warm-prefix-2048/2026-12-01-x86_64-avx512-2c-1";
        for arm in ["fused", "llama-server:agent"] {
            assert_eq!(firsts(warm, arm).len(), 8, "nine turns, the first is cold");
        }
        let deep = "deep-35/2026-12-01-x86_64-avx512-2c-1";
        assert_eq!(firsts(deep, "fused").len(), 34);
        assert!(firsts(deep, "llama-server:agent").is_empty());
    }
}
