//! The gate tries itself: forged baselines and a perturbed run, each of which must be noticed, every time.
//!
//! Not here: what a gate compares (`differ`).

use super::baseline::{Answered, Baseline, Seen, session};
use super::differ::differences;
use crate::error::Error;
use crate::run::control::perturbed;
use crate::sealed::{SealedRun, Trace};
use crate::world::World;

/// What one control does to a baseline.
struct Forgery {
    what: &'static str,
    forge: fn(&mut Baseline) -> Option<()>,
}

const FORGERIES: [Forgery; 5] = [
    Forgery {
        what: "one output id changed",
        forge: |baseline| {
            let answer = baseline.answers.values_mut().next_back()?;
            *answer.ids.last_mut()? ^= 1;
            Some(())
        },
    },
    Forgery {
        what: "one logit hash changed",
        forge: |baseline| {
            let answer = baseline.answers.values_mut().next_back()?;
            answer.logits_sha256 = answer.logits_sha256.chars().rev().collect();
            answer.logits_sha256.push('0');
            Some(())
        },
    },
    Forgery {
        what: "one counter of an arm changed",
        forge: |baseline| {
            let counted = baseline.arms.values_mut().next_back()?;
            *counted.counters.values_mut().next()? += 1;
            Some(())
        },
    },
    Forgery {
        what: "one hit of a request changed",
        forge: |baseline| {
            let counted = baseline.arms.values_mut().next_back()?;
            counted.requests.values_mut().next()?[0] += 1;
            Some(())
        },
    },
    Forgery {
        what: "one hit rate changed",
        forge: |baseline| {
            baseline.arms.values_mut().next_back()?.reuse_rate += 1e-6;
            Some(())
        },
    },
];

/// Runs every control; returns how many were noticed, which is all of them or an error.
pub(super) fn run(
    baseline: &Baseline,
    seen: &[Seen],
    run: &SealedRun,
    model: &str,
    world: &World,
) -> Result<usize, Error> {
    // Behind a difference a further lie could hide; one process always agrees with itself.
    let (truth, seen_by_it) = match seen.first() {
        Some(first) if !differences(baseline, seen).is_empty() => {
            (baseline.of_process(first), &seen[..1])
        }
        _ => (baseline.clone(), seen),
    };
    for Forgery { what, forge } in &FORGERIES {
        let mut forged = truth.clone();
        forge(&mut forged).ok_or_else(|| unnoticed(what))?;
        if differences(&forged, seen_by_it).is_empty() {
            return Err(unnoticed(what));
        }
    }
    perturbed_run(seen, run, model, world)?;
    Ok(FORGERIES.len() + 1)
}

/// The first turn again of the last arm that computes, one logit off by its last bit: that request's hash must change
/// and nothing else.
fn perturbed_run(seen: &[Seen], run: &SealedRun, model: &str, world: &World) -> Result<(), Error> {
    let what = "a run with one bit of one logit changed";
    let envelope = session(run)?;
    let mut last_first = envelope.run.arms.iter().rev();
    let honest = last_first.find_map(|arm| seen.iter().find(|seen| seen.arm == *arm));
    let honest = honest.ok_or_else(|| unnoticed(what))?;
    let lines = perturbed(&envelope, &honest.arm, model, world)?;
    let touched = Seen::of(&Trace {
        path: String::new(),
        cell: None,
        arm: honest.arm.clone(),
        rep: 0,
        lines,
    });
    let before = |request: &String| honest.answers.get(request);
    let same = |(request, answer): &(&String, &Answered)| before(request) == Some(answer);
    let only_logits = |(request, answer): &(&String, &Answered)| {
        let before = before(request).filter(|before| before.ids == answer.ids);
        before.is_some_and(|before| before.logits_sha256 != answer.logits_sha256)
    };
    let count = |is: &dyn Fn(&(&String, &Answered)) -> bool| {
        touched.answers.iter().filter(|answer| is(answer)).count()
    };
    let as_it_must = count(&only_logits) == 1 && count(&same) + 1 == envelope.workload.agents;
    as_it_must.then_some(()).ok_or_else(|| unnoticed(what))
}

fn unnoticed(what: &str) -> Error {
    Error::Broken(format!(
        "the negative control failed: {what} went unnoticed, so this gate's word means nothing"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::baseline::Counted;

    fn seen() -> Seen {
        let answer = Answered {
            ids: vec![1, 2],
            logits_sha256: "ab".repeat(32),
        };
        Seen {
            arm: "fused".to_owned(),
            rep: 0,
            counted: Counted {
                counters: [("requests".to_owned(), 1)].into(),
                reuse_rate: 0.5,
                requests: [("a0-t0".to_owned(), [5, 4, 1, 0])].into(),
            },
            answers: [("a0-t0".to_owned(), answer)].into(),
        }
    }

    #[test]
    fn every_forgery_is_a_difference_of_what_agreed_before() {
        let truth: Baseline = serde_json::from_value(serde_json::json!({
            "schema": "fak.gate/1", "envelope": "e", "arms": {}, "answers": {},
            "question": { "model": "m", "model_sha256": "0", "mode": "exact", "arm_turns": {},
                "workload": { "kind": "session", "agents": 1, "turns": 1, "prefix": 1, "decode": 1, "result": 1 },
                "chunk_tokens": 1, "kv_pages": 1 },
        }))
        .unwrap();
        let truth = truth.of_process(&seen());
        assert_eq!(differences(&truth, &[seen()]), []);
        for Forgery { what, forge } in &FORGERIES {
            let mut forged = truth.clone();
            forge(&mut forged).unwrap();
            assert_eq!(differences(&forged, &[seen()]).len(), 1, "{what}");
        }
    }
}
