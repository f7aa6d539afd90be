//! What our model makes of another engine's answers: how far each token lies from the best one.
//!
//! Not here: reading them with a model (`baselines`).

use std::collections::{BTreeMap, HashMap};

use crate::record::{ScoreRecord, ScoredToken};
use crate::statistics::round6;
use crate::trace::server::{Answer, BeginServer};
use crate::trace::{Body, Line};

/// Margins of the tokens of every answer of a repetition, by (agent, turn).
pub(super) type Scored = BTreeMap<(usize, usize), Vec<u64>>;

/// Reads the score of the trace that began with `begin` and has these answers; `None` if it did not end well.
pub(super) fn read(
    lines: &[Line],
    begin: &BeginServer,
    answers: &BTreeMap<(usize, usize), &Answer>,
) -> Result<Option<Scored>, String> {
    let Some(Body::BeginScore(own)) = lines.first().map(|line| &line.body) else {
        return Err("its first line is no `begin_score`".to_owned());
    };
    if (&own.arm, own.rep) != (&begin.arm, begin.rep) {
        return Err(format!("its `begin_score` says {}-{}", own.arm, own.rep));
    }
    if own.model_sha256 != begin.model_sha256 {
        return Err("its model is not the one that answered".to_owned());
    }
    match lines.last().map(|line| &line.body) {
        Some(Body::EndScore(_)) => {}
        Some(Body::Error { .. }) => return Ok(None),
        _ => return Err("it has no `end_score` or `error`".to_owned()),
    }
    let places: HashMap<&str, ((usize, usize), &Answer)> = (answers.iter())
        .map(|(&place, &answer)| (answer.request.as_str(), (place, answer)))
        .collect();
    let mut scored = Scored::new();
    for line in lines {
        let Body::Score(score) = &line.body else {
            continue;
        };
        let request = &score.request;
        let Some(&(place, answer)) = places.get(request.as_str()) else {
            return Err(format!("`{request}` was not answered"));
        };
        if score.margins_micronats.len() != answer.ids.len() {
            return Err(format!("`{request}` has another number of tokens"));
        }
        if scored
            .insert(place, score.margins_micronats.clone())
            .is_some()
        {
            return Err(format!("`{request}` is scored twice"));
        }
    }
    if scored.len() != answers.len() {
        let (found, all) = (scored.len(), answers.len());
        return Err(format!("it has {found} of {all} answers"));
    }
    Ok(Some(scored))
}

/// All repetitions together, which stand in ascending order; `None` without a token.
pub(super) fn record(
    repetitions: &[(usize, &Scored)],
    margin_millinats: u64,
) -> Option<ScoreRecord> {
    let tokens: Vec<ScoredToken> = (repetitions.iter())
        .flat_map(|&(rep, scored)| scored.iter().map(move |answer| (rep, answer)))
        .flat_map(|(rep, (&(agent, turn), margins))| {
            let margins = margins.iter().enumerate();
            margins.map(move |(position, &micronats)| ScoredToken {
                rep,
                agent,
                turn,
                position,
                micronats,
            })
        })
        .collect();
    let worst_micronats = tokens.iter().map(|token| token.micronats).max()?;
    let exact = tokens.iter().filter(|token| token.micronats == 0).count();
    let beyond = |micronats: u64| {
        let mut found = tokens.iter().filter(|token| token.micronats > micronats);
        found.next().cloned()
    };
    Some(ScoreRecord {
        tokens: tokens.len() as u64,
        exact_tokens: exact as u64,
        exact_share: round6(exact as f64 / tokens.len() as f64),
        worst_micronats,
        first_divergence: beyond(0),
        beyond_margin: beyond(margin_millinats.saturating_mul(1000)),
    })
}
