//! The five arms on the synthetic model: closed forms, equal answers, and traces that say why one failed.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::path::PathBuf;

use baselines::{ArmJob, Error, run_arm};
use workloads::arm::{Cache, named};
use workloads::envelope::{Envelope, Overrides, ResolvedEnvelope};
use workloads::oracle::counts;
use workloads::summary::{ArmTrace, summarise};
use workloads::trace::{Body, Line, sha256_hex};

fn smoke(overrides: &Overrides) -> ResolvedEnvelope {
    let once = Overrides {
        reps: Some(1),
        ..overrides.clone()
    };
    Envelope::named("smoke").unwrap().resolve(&once, 1).unwrap()
}

/// Runs an arm on a clock that advances by one at every look; checks the chain of what it wrote.
fn run(envelope: &ResolvedEnvelope, arm: &str) -> (Result<(), Error>, Vec<Line>) {
    let (envelope, arm) = (envelope.clone(), arm.to_owned());
    run_job(&ArmJob {
        envelope,
        arm,
        rep: 0,
        model_path: None,
        perturbed: false,
    })
}

fn run_job(job: &ArmJob) -> (Result<(), Error>, Vec<Line>) {
    let now = Cell::new(0);
    let mut out = Vec::new();
    let outcome = run_arm(job, &|| now.replace(now.get() + 1), &|| Some(7), &mut out);
    let text = String::from_utf8(out).unwrap();
    let mut prev = "0".repeat(64);
    let read = |(seq, text): (usize, &str)| {
        let line: Line = serde_json::from_str(text).unwrap();
        assert_eq!((line.seq, &line.prev), (seq as u64, &prev));
        prev = sha256_hex(text.as_bytes());
        line
    };
    (outcome, text.lines().enumerate().map(read).collect())
}

/// Every arm of `envelope`, run; panics if one fails.
fn ladder(envelope: &ResolvedEnvelope) -> Vec<(String, Vec<Line>)> {
    let trace = |arm: &String| {
        let (outcome, lines) = run(envelope, arm);
        outcome.unwrap();
        (arm.clone(), lines)
    };
    envelope.run.arms.iter().map(trace).collect()
}

#[test]
fn all_arms_answer_alike_and_compute_what_their_closed_form_says() {
    let envelope = smoke(&Overrides::default());
    let traces = ladder(&envelope);
    let traces: Vec<ArmTrace<'_>> = traces
        .iter()
        .map(|(arm, lines)| ArmTrace { arm, rep: 0, lines })
        .collect();
    let summary = summarise(&envelope, &traces).unwrap();
    assert!(summary.complete);
    assert_eq!(summary.identity.first_divergence, None);
    assert_eq!(
        (summary.identity.arms.len(), summary.identity.requests),
        (5, 12)
    );
    for (name, arm) in &summary.arms {
        let closed = counts(named(name).unwrap(), &envelope.workload.shape()).unwrap();
        assert_eq!(
            arm.prefill_tokens_computed,
            Some(closed.prefill_tokens_computed),
            "{name}"
        );
        assert_eq!(
            arm.prefill_tokens_logical,
            Some(closed.prefill_tokens_logical),
            "{name}"
        );
        assert_eq!(arm.decode_tokens, Some(closed.decode_tokens), "{name}");
        assert_eq!(arm.replayed_tokens, Some(closed.replayed_tokens), "{name}");
        assert_eq!(arm.carried_tokens, Some(closed.carried_tokens), "{name}");
        assert_eq!(
            arm.prefix_tokens_hit,
            Some(closed.prefix_tokens_hit),
            "{name}"
        );
    }
}

#[test]
fn settings_that_may_not_change_an_answer_do_not() {
    let hashes = |lines: &[Line]| {
        let logits = |line: &Line| match &line.body {
            Body::Finish {
                request,
                logits_sha256,
                ..
            } => Some((request.clone(), logits_sha256.clone())),
            _ => None,
        };
        let mut hashes: Vec<_> = lines.iter().filter_map(logits).collect();
        hashes.sort();
        hashes
    };
    let expected = run(&smoke(&Overrides::default()), "naive").1;
    let mut envelope = smoke(&Overrides {
        threads: Some(2),
        ..Overrides::default()
    });
    envelope.run.kernels = "scalar".to_owned();
    for chunk_tokens in [1, 7, 64] {
        envelope.run.chunk_tokens = chunk_tokens;
        let (outcome, lines) = run(&envelope, "fused");
        outcome.unwrap();
        assert_eq!(
            hashes(&lines),
            hashes(&expected),
            "chunks of {chunk_tokens}"
        );
    }
}

#[test]
fn serial_arms_run_one_request_a_step_and_batched_arms_decode_every_agent_together() {
    for (arm, lines) in ladder(&smoke(&Overrides::default())) {
        let decoding = |line: &Line| match &line.body {
            Body::Step {
                phase, requests, ..
            } if phase == "decode" => Some(*requests),
            _ => None,
        };
        let together = lines.iter().filter_map(decoding).max();
        assert_eq!(
            together,
            Some(if named(&arm).unwrap().batched { 3 } else { 1 }),
            "{arm}"
        );
    }
}

#[test]
fn lines_stand_in_the_order_the_format_asks_for_and_balance_per_request() {
    for (arm, lines) in ladder(&smoke(&Overrides::default())) {
        let kind = |line: &Line| serde_json::to_value(line).unwrap()["kind"].clone();
        assert_eq!(
            (kind(&lines[0]), kind(&lines[1])),
            ("begin".into(), "text".into())
        );
        assert_eq!(kind(lines.last().unwrap()), "end");
        assert!(lines.is_sorted_by_key(|line| line.t_ns), "{arm}");
        let requests = lines.iter().filter_map(|line| match &line.body {
            Body::Request { id, prompt_len, .. } => Some((id.clone(), *prompt_len)),
            _ => None,
        });
        for (id, prompt_len) in requests {
            let (mut kinds, mut sum, mut replays) = (Vec::new(), 0, None);
            for line in &lines {
                match &line.body {
                    Body::Request { id: request, .. } if *request == id => kinds.push("request"),
                    Body::Prefix {
                        request, matched, ..
                    } if *request == id => {
                        kinds.push("prefix");
                        sum += matched;
                        assert!(*matched == 0 || named(&arm).unwrap().cache != Cache::None);
                        replays = Some(usize::from(*matched == prompt_len));
                    }
                    Body::Prefill {
                        request,
                        computed,
                        carried,
                        replayed,
                        ..
                    } if *request == id => {
                        kinds.push("prefill");
                        sum += computed + carried;
                        assert_eq!(Some(*replayed), replays, "{arm} {id}");
                    }
                    Body::Finish { request, .. } if *request == id => kinds.push("finish"),
                    _ => {}
                }
            }
            assert_eq!(
                kinds,
                ["request", "prefix", "prefill", "finish"],
                "{arm} {id}"
            );
            assert_eq!(sum, prompt_len, "{arm} {id}");
        }
    }
}

#[test]
fn an_arm_that_cannot_start_says_so_in_its_last_line() {
    let mut envelope = smoke(&Overrides::default());
    envelope.run.kv_pages = 2;
    let (outcome, lines) = run(&envelope, "fused");
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("run.kv_pages = 2"), "{message}");
    assert!(matches!(lines[0].body, Body::Begin { .. }));
    assert_eq!(lines.last().unwrap().body, Body::Error { message });

    let mut envelope = smoke(&Overrides::default());
    envelope.workload.prefix = 1 << 20;
    envelope.run.kv_pages = 1 << 20;
    let (outcome, lines) = run(&envelope, "naive");
    assert!(
        matches!(
            outcome,
            Err(Error::Context {
                needed: 1_048_644,
                ..
            })
        ),
        "{outcome:?}"
    );
    assert!(matches!(lines.last().unwrap().body, Body::Error { .. }));
}

#[test]
fn the_fewest_pages_that_are_accepted_suffice() {
    let mut envelope = smoke(&Overrides::default());
    for arm in envelope.run.arms.clone() {
        envelope.run.kv_pages = 0;
        let lines = loop {
            envelope.run.kv_pages += 1;
            match run(&envelope, &arm) {
                (Err(Error::Pages { .. }), _) => {}
                (outcome, lines) => break outcome.map(|()| lines).unwrap(),
            }
        };
        let Body::End {
            prefill_tokens_computed,
            ..
        } = lines.last().unwrap().body
        else {
            panic!("{arm} has no end");
        };
        let closed = counts(named(&arm).unwrap(), &envelope.workload.shape()).unwrap();
        assert_eq!(
            prefill_tokens_computed, closed.prefill_tokens_computed,
            "{arm}"
        );
    }
}

#[test]
fn a_model_that_cannot_be_loaded_leaves_no_trace() {
    let overrides = Overrides {
        model: Some("synthetic-nothing".to_owned()),
        ..Overrides::default()
    };
    let (outcome, lines) = run(&smoke(&overrides), "naive");
    assert!(matches!(outcome, Err(Error::Engine(_))) && lines.is_empty());
    let envelope = smoke(&Overrides::default());
    let model_path = Some(PathBuf::from("nowhere/model.gguf"));
    let (outcome, lines) = run_job(&ArmJob {
        envelope,
        arm: "fused".to_owned(),
        rep: 0,
        model_path,
        perturbed: false,
    });
    let message = outcome.unwrap_err().to_string();
    assert!(
        message.contains("model.gguf") && lines.is_empty(),
        "{message}"
    );
}

#[test]
fn a_job_travels_as_json_and_refuses_what_it_does_not_know() {
    let envelope = smoke(&Overrides::default());
    let job = ArmJob {
        envelope,
        arm: "naive".to_owned(),
        rep: 3,
        model_path: Some("m".into()),
        perturbed: false,
    };
    let text = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<ArmJob>(&text).unwrap(), job);
    let forged = text.replacen("\"rep\"", "\"extra\":1,\"rep\"", 1);
    assert!(serde_json::from_str::<ArmJob>(&forged).is_err());
    let (outcome, _) = run(&job.envelope, "mohair");
    assert!(matches!(outcome, Err(Error::Envelope(_))));
}
