//! The five arms on the synthetic model: closed forms, equal answers, and traces that say why one failed.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::path::PathBuf;

use baselines::{ArmJob, Error, Host, Servers, run_arm};
use workloads::arm::{Cache, named};
use workloads::envelope::{Envelope, Eviction, Order, Overrides, Quarantine, ResolvedEnvelope};
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
        servers: Servers::default(),
    })
}

fn run_job(job: &ArmJob) -> (Result<(), Error>, Vec<Line>) {
    let now = Cell::new(0);
    let mut out = Vec::new();
    let host = Host {
        clock: &|| now.replace(now.get() + 1),
        peak_rss: &|| Some(7),
        abandoned: &|| false,
    };
    let outcome = run_arm(job, &host, &mut out);
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
        .map(|(arm, lines)| ArmTrace {
            arm,
            rep: 0,
            lines,
            score: None,
        })
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

/// What an arm computed, and by request what it answered.
fn computed(lines: &[Line]) -> (u64, Vec<(String, String)>) {
    let mut answers = Vec::new();
    for line in lines {
        match &line.body {
            Body::Finish {
                request,
                logits_sha256,
                ..
            } => answers.push((request.clone(), logits_sha256.clone())),
            Body::End {
                prefill_tokens_computed,
                ..
            } => {
                answers.sort();
                return (*prefill_tokens_computed, answers);
            }
            _ => {}
        }
    }
    panic!("the trace has no end");
}

const POLICIES: [Eviction; 5] = [
    Eviction::Lru,
    Eviction::Lfu,
    Eviction::Fifo,
    Eviction::Priority,
    Eviction::Cost,
];

#[test]
fn with_few_pages_every_arm_and_policy_answers_alike_and_computes_no_less_and_with_enough_exactly()
{
    let mut envelope = smoke(&Overrides::default());
    let enough = envelope.workload.shape().kv_pages_enough().unwrap() as usize;
    assert_eq!(enough, 12); // three agents, transcripts of 168 positions
    envelope.run.kv_pages = 3;
    let (outcome, _) = run(&envelope, "fused");
    assert!(matches!(outcome, Err(Error::Pages { needed: 4, .. })));
    let (_, expected) = computed(&run(&smoke(&Overrides::default()), "naive").1);
    for (arm, order) in [
        ("agent-kv", Order::Turns),
        ("agent-kv-batched", Order::Turns),
        ("fused", Order::Turns),
        ("fused", Order::Agents),
    ] {
        envelope.workload.order = order;
        let closed = counts(named(arm).unwrap(), &envelope.workload.shape()).unwrap();
        for eviction in POLICIES {
            for kv_pages in [4, 5, 7, enough] {
                (envelope.run.kv_pages, envelope.run.eviction) = (kv_pages, eviction);
                let (outcome, lines) = run(&envelope, arm);
                outcome.unwrap();
                let (computed, answers) = computed(&lines);
                let what = format!("{arm}, {order:?}, {eviction:?}, {kv_pages} pages");
                assert_eq!(answers, expected, "{what}");
                let least = closed.prefill_tokens_computed;
                assert!(computed >= least, "{what}");
                assert!(kv_pages < enough || computed == least, "{what}");
            }
        }
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
        servers: Servers::default(),
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
        servers: Servers::default(),
    };
    let text = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<ArmJob>(&text).unwrap(), job);
    let forged = text.replacen("\"rep\"", "\"extra\":1,\"rep\"", 1);
    assert!(serde_json::from_str::<ArmJob>(&forged).is_err());
    let (outcome, _) = run(&job.envelope, "mohair");
    assert!(matches!(outcome, Err(Error::Envelope(_))));
}

/// `smoke` with a bad result: what the first two agents were handed at turn 1 is taken out after it.
fn bad() -> ResolvedEnvelope {
    let mut envelope = smoke(&Overrides::default());
    envelope.workload.quarantine = Some(Quarantine { turn: 1, agents: 2 });
    envelope.evidence.kv = true;
    envelope
}

#[test]
fn a_result_taken_out_midway_changes_no_answer_and_costs_each_arm_what_its_closed_form_says() {
    let envelope = bad();
    let traces = ladder(&envelope);
    let traces: Vec<ArmTrace<'_>> = traces
        .iter()
        .map(|(arm, lines)| ArmTrace {
            arm,
            rep: 0,
            lines,
            score: None,
        })
        .collect();
    let summary = summarise(&envelope, &traces).unwrap();
    assert_eq!(summary.identity.first_divergence, None);
    let shape = envelope.workload.shape();
    for (name, arm) in &summary.arms {
        let closed = counts(named(name).unwrap(), &shape).unwrap();
        let found = [
            arm.prefill_tokens_computed,
            arm.prefix_tokens_hit,
            arm.carried_tokens,
        ];
        let expected = [
            closed.prefill_tokens_computed,
            closed.prefix_tokens_hit,
            closed.carried_tokens,
        ];
        assert_eq!(found, expected.map(Some), "{name}");
    }
    // Prefix, answer, and the result that begins there.
    for ArmTrace { arm, lines, .. } in traces {
        for line in lines {
            if let Body::Prefix {
                request,
                matched,
                barred_at,
                ..
            } = &line.body
            {
                let barred = ["a0-t2", "a0-t3", "a1-t2", "a1-t3"].contains(&request.as_str());
                assert_eq!(*barred_at, barred.then_some(108), "{arm} {request}");
                assert!(!barred || *matched <= 108, "{arm} {request}");
            }
        }
    }
}

#[test]
fn the_tree_that_is_left_has_whole_pages_above_others_and_refuses_what_was_taken_out() {
    for (arm, lines) in ladder(&bad()) {
        let kv = lines.iter().rev().find_map(|line| match &line.body {
            Body::Kv { nodes, tombstones } => Some((nodes, tombstones)),
            _ => None,
        });
        let (nodes, tombstones) = kv.unwrap();
        assert_eq!(nodes.is_empty(), arm == "naive");
        for node in nodes {
            let parent = nodes.iter().find(|other| Some(other.id) == node.parent);
            assert!(parent.is_none_or(|it| it.positions == 64), "{arm}");
        }
        let places: Vec<_> = tombstones
            .iter()
            .map(|it| (it.start, it.positions))
            .collect();
        assert_eq!(places, [(108, 12), (108, 12)], "{arm}");
    }
}
