//! The metric of first tokens: how long somebody waits who comes back to a text that is in the cache.
//!
//! Times are read from traces, request by request. Not here: times of whole runs (`metrics`).

use std::collections::BTreeSet;
use std::fs;

use workloads::statistics::Interval;
use workloads::trace::{Body, Line};

use super::bound::Bound;
use super::files::program_words;
use super::metrics::{Found, Library, Stop, arm_of, judged, named, sides, worst_by};
use super::verdict::{Measured, Noise};
use crate::report::evidence::Anchored;

/// Milliseconds from a request to its first token, for requests that continue a session: the median of each repetition, and of
/// those the median. The other side is what the median pair of repetitions makes of ours.
pub(super) fn warm_first_token(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst_by(bound, advantage, |place| {
        let run = library.run(place)?;
        let record = &run.record;
        let (arm, over) = (named(place.arm.as_ref())?, named(place.over.as_ref())?);
        let mut differs = sides(run, arm, over)?;
        // A server answers whole: its first token is known only where there is no second.
        if run.declared["workload"]["decode"] != 1 {
            differs.push("more than one token is asked for".to_owned());
        }
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
        let broken = |error: &dyn std::fmt::Display| {
            Stop::Broken(format!("{}/{name}: {error}", run.directory()))
        };
        let path = library.root.join(run.directory()).join(&name);
        let text = fs::read_to_string(path).map_err(|error| broken(&error))?;
        let firsts = of_trace(&text).map_err(|error| broken(&error))?;
        Ok((rep, middle(&firsts)?))
    })
    .collect()
}

/// Milliseconds to the first token of each request that is not the first of its session.
fn of_trace(text: &str) -> Result<Vec<f64>, serde_json::Error> {
    let mut warm = Vec::new();
    let mut going_on = BTreeSet::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line)?;
        let (request, first_ns) = match line.body {
            Body::Request { id, turn, .. } if turn > 0 => {
                going_on.insert(id);
                continue;
            }
            Body::Finish {
                request,
                token_t_ns,
                ..
            } => (request, token_t_ns.first().copied()),
            Body::Answer(answer) => (answer.request, answer.chunk_t_ns.first().copied()),
            _ => continue,
        };
        if going_on.contains(&request) {
            warm.extend(first_ns.map(|ns| ns as f64 / 1e6));
        }
    }
    Ok(warm)
}

fn middle(values: &[f64]) -> Result<f64, Stop> {
    let none = || Stop::Waits("no request that goes on was answered".to_owned());
    workloads::statistics::median(values).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_go_on_count_and_they_count_to_their_first_token() {
        let line = |rest: &str| format!("{{\"seq\":0,\"prev\":\"\",\"t_ns\":0,{rest}}}\n");
        let request = |turn: usize| {
            line(&format!(
                "\"kind\":\"request\",\"id\":\"a0-t{turn}\",\"session\":\"a0\",\"agent\":0,\"turn\":{turn},\"worker\":0,\
                 \"base\":null,\"keep\":0,\"append\":[1],\"prompt_len\":1,\"prompt_sha256\":\"\",\"decode_max\":2,\"ignore_eos\":true"
            ))
        };
        let finish = |turn: usize, first_ns: u64| {
            line(&format!(
                "\"kind\":\"finish\",\"request\":\"a0-t{turn}\",\"ids\":[1,2],\"token_t_ns\":[{first_ns},99000000],\
                 \"batch\":[1,1],\"reason\":\"length\",\"logits_sha256\":\"\""
            ))
        };
        let text = request(0) + &finish(0, 50_000_000) + &request(1) + &finish(1, 2_500_000);
        assert_eq!(of_trace(&text).unwrap(), [2.5]);
        assert!(of_trace("{").is_err());
    }
}
