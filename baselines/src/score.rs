//! Another engine's answers, read by our model: how far each of its ids is from the best.
//!
//! The transcript is taken as it stands and read once per agent, cold, in mode `exact`. Not here: which margin is too much
//! (`workloads::summary`, and `audit` again).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use engine::Engine;
use workloads::trace::server::{Answer, BeginScore, EndScore, Score};
use workloads::trace::{Base, Body, Line, TRACE_SCHEMA, TraceWriter, sha256_hex};

use crate::native::{open_model, scoring_options};
use crate::{Error, ScoreJob};

/// A request and its answer, as they stand in a transcript.
struct Place {
    agent: usize,
    /// Where its output begins.
    start: usize,
    ids: usize,
}

/// What a trace says that matters here.
#[derive(Default)]
struct Read {
    /// By agent, as far as it got.
    transcripts: BTreeMap<usize, Vec<u32>>,
    /// By name, and in the order of the answers.
    places: BTreeMap<String, Place>,
    order: Vec<String>,
    barred: Vec<u32>,
}

/// Scores a trace and writes its `score` trace to `out`; `clock` counts nanoseconds.
pub fn run_score(job: &ScoreJob, clock: &dyn Fn() -> u64, out: impl Write) -> Result<(), Error> {
    let start_ns = clock();
    let bytes = std::fs::read(&job.trace)?;
    let text = String::from_utf8_lossy(&bytes);
    let read = read(&text).map_err(|problem| {
        let (arm, rep) = (&job.scored, job.rep);
        Error::External(format!(
            "the trace of {arm}-{rep} cannot be scored: {problem}"
        ))
    })?;
    let options = scoring_options(&job.envelope.run)?;
    let model = open_model(job.model_path.as_deref(), &job.envelope.model)?;
    let mut engine = Engine::new(model, &options)?;
    let mut writer = TraceWriter::new(out);
    let begin = BeginScore {
        schema: TRACE_SCHEMA.to_owned(),
        envelope: job.envelope.name.clone(),
        envelope_sha256: job.envelope.sha256().map_err(Error::Json)?,
        arm: job.scored.clone(),
        rep: job.rep,
        model_sha256: engine.model().sha256()?.to_owned(),
        tokenizer_sha256: engine.model().tokenizer_sha256(),
        trace_sha256: sha256_hex(&bytes),
        mode: "exact".to_owned(),
        kernels: engine.kernels().to_owned(),
        threads: engine.threads(),
        kv_dtype: engine.kv_dtype().to_owned(),
        barred: read.barred.clone(),
    };
    writer.write(clock(), Body::BeginScore(begin))?;
    let scored = margins(&mut engine, &read);
    let scores = match scored {
        Ok(scores) => scores,
        Err(error) => {
            let message = error.to_string();
            let _ = writer.write(clock(), Body::Error { message }); // the first error is the one to tell
            return Err(error);
        }
    };
    let mut end = EndScore {
        requests: scores.len(),
        tokens: 0,
        exact_tokens: 0,
        worst_micronats: 0,
        wall_ns: 0,
    };
    for score in scores {
        for &margin in &score.margins_micronats {
            end.tokens += 1;
            end.exact_tokens += u64::from(margin == 0);
            end.worst_micronats = end.worst_micronats.max(margin);
        }
        writer.write(clock(), Body::Score(score))?;
    }
    end.wall_ns = clock().saturating_sub(start_ns);
    writer.write(clock(), Body::EndScore(end))?;
    Ok(())
}

/// Rebuilds every agent's transcript.
fn read(text: &str) -> Result<Read, String> {
    let mut read = Read::default();
    let mut texts = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line: Line =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        match line.body {
            Body::Ready(ready) => read.barred = ready.barred,
            Body::Text { name, ids } => {
                texts.insert(name, ids);
            }
            Body::Request {
                id,
                agent,
                base,
                append,
                decode_max,
                ..
            } => {
                if let Some(Base::Text(name)) = base {
                    let text = texts.get(&name).ok_or("a text was not stated")?;
                    read.transcripts.insert(agent, text.clone());
                }
                let transcript = read.transcripts.get_mut(&agent);
                let transcript = transcript.ok_or("a turn continues nothing")?;
                transcript.extend(append);
                let place = Place {
                    agent,
                    start: transcript.len(),
                    ids: decode_max,
                };
                read.places.insert(id, place);
            }
            Body::Answer(Answer { request, ids, .. }) => {
                let place = read
                    .places
                    .get_mut(&request)
                    .ok_or("an answer to nothing")?;
                let transcript = read.transcripts.get_mut(&place.agent);
                let transcript = transcript.ok_or("an answer to nobody")?;
                if transcript.len() != place.start {
                    return Err("an answer comes after its agent went on".to_owned());
                }
                if ids.iter().any(|id| read.barred.binary_search(id).is_ok()) {
                    return Err(format!(
                        "{request} has an id its server said it would not give"
                    ));
                }
                place.ids = ids.len();
                transcript.extend(ids);
                read.order.push(request);
            }
            _ => {}
        }
    }
    if read.order.is_empty() {
        return Err("it has no answer".to_owned());
    }
    Ok(read)
}

/// The scores, in the order of the answers.
fn margins(engine: &mut Engine, read: &Read) -> Result<Vec<Score>, Error> {
    let mut by_position: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (&agent, transcript) in &read.transcripts {
        let answered = read.places.values().filter(|place| place.agent == agent);
        // The logits at a position are those of the id after it.
        let wanted: BTreeSet<usize> = answered
            .flat_map(|place| place.start.saturating_sub(1)..place.start + place.ids - 1)
            .collect();
        let mut each = |position: usize, logits: &[f32]| {
            let id = transcript.get(position + 1).copied().unwrap_or_default();
            let margin = margin_micronats(logits, id, &read.barred);
            by_position.insert((agent, position + 1), margin);
        };
        engine.logits_at(
            transcript,
            &|position| wanted.contains(&position),
            &mut each,
        )?;
    }
    let score = |name: &String| {
        let place = read.places.get(name)?;
        let positions = place.start..place.start + place.ids;
        let margins = positions.map(|position| by_position.get(&(place.agent, position)).copied());
        Some(Score {
            request: name.clone(),
            margins_micronats: margins.collect::<Option<_>>()?,
        })
    };
    let scores = read.order.iter().map(score).collect::<Option<_>>();
    scores.ok_or_else(|| Error::Contradiction("an answer was not scored".to_owned()))
}

/// How far the logit of `id` is below the greatest of those that are not barred.
fn margin_micronats(logits: &[f32], id: u32, barred: &[u32]) -> u64 {
    let free = logits.iter().enumerate();
    let free = free.filter(|(at, _)| barred.binary_search(&(*at as u32)).is_err());
    let greatest = free.fold(f32::NEG_INFINITY, |greatest, (_, logit)| {
        greatest.max(*logit)
    });
    let own = logits
        .get(id as usize)
        .copied()
        .unwrap_or(f32::NEG_INFINITY);
    let nats = f64::from(greatest) - f64::from(own);
    if nats.is_nan() {
        return u64::MAX; // logits that are no numbers choose nothing
    }
    (nats.max(0.0) * 1e6).round() as u64 // a barred id that was chosen all the same is none above the best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_the_distance_from_the_best_that_may_be_chosen() {
        let logits = [1.0, 3.0, 2.5, -1.0];
        assert_eq!(margin_micronats(&logits, 1, &[]), 0);
        assert_eq!(margin_micronats(&logits, 2, &[]), 500_000);
        assert_eq!(margin_micronats(&logits, 2, &[1]), 0);
        assert_eq!(margin_micronats(&logits, 0, &[1, 2]), 0);
        assert_eq!(margin_micronats(&logits, 3, &[]), 4_000_000);
        assert_eq!(margin_micronats(&logits, 9, &[]), u64::MAX);
        assert_eq!(margin_micronats(&[f32::NAN; 2], 0, &[]), u64::MAX);
        assert_eq!(margin_micronats(&[f32::INFINITY; 2], 0, &[]), u64::MAX);
    }
}
