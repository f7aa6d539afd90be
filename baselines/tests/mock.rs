//! The scripted arm: what it takes is what was scripted, and it counts like a session without a cache.
#![allow(clippy::unwrap_used)] // tests

use std::cell::Cell;

use baselines::{ArmJob, Host, Servers, run_arm};
use workloads::arm::{MOCK, named};
use workloads::envelope::{Envelope, Overrides};
use workloads::mock::{Script, StepKey};
use workloads::oracle::counts;
use workloads::trace::{Body, Line};

fn job(script: Option<Script>) -> ArmJob {
    let mut envelope = Envelope::named("instrument").unwrap();
    envelope.workload.turns = 3;
    let mut resolved = envelope.resolve(&Overrides::default(), 1).unwrap();
    resolved.mock = script;
    ArmJob {
        envelope: resolved,
        arm: MOCK.name.to_owned(),
        rep: 1,
        model_path: None,
        perturbed: false,
        servers: Servers::default(),
    }
}

fn host(clock: &dyn Fn() -> u64) -> Host<'_> {
    Host {
        clock,
        peak_rss: &|| None,
        abandoned: &|| false,
    }
}

/// The trace of `job` on a clock that advances by one at every look.
fn trace(job: &ArmJob) -> Vec<Line> {
    let (now, mut out) = (Cell::new(0), Vec::new());
    let clock = || now.replace(now.get() + 1);
    run_arm(job, &host(&clock), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_step_takes_its_script_and_a_few_looks_at_the_clock() {
    let script = Script {
        step_ns: 5_000,
        prefill_ns_per_token: 10,
        decode_ns_per_token: 300,
        jitter_thousandths: 100,
    };
    let job = job(Some(script));
    let mut step = 0;
    let mut lengths = Vec::new();
    for line in trace(&job) {
        let Body::Step {
            phase,
            rows,
            wall_ns,
            ..
        } = line.body
        else {
            continue;
        };
        let key = StepKey {
            seed: job.envelope.workload.seed,
            rep: 1,
            step,
        };
        let scripted_ns = match phase.as_str() {
            "prefill" => script.prefill_ns(rows, key),
            _ => script.decode_ns(rows, key),
        };
        assert!(
            (scripted_ns..scripted_ns + 12).contains(&wall_ns),
            "step {step}: {wall_ns}"
        );
        let plain_ns = if phase == "prefill" {
            5_000 + 10 * rows as u64
        } else {
            5_300
        };
        assert!(scripted_ns.abs_diff(plain_ns) <= plain_ns / 10 + 1);
        lengths.push(scripted_ns);
        step += 1;
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 50, "chance gives steps of many lengths");
}

#[test]
fn it_counts_what_an_arm_without_a_cache_counts() {
    let script = Script {
        step_ns: 1,
        prefill_ns_per_token: 0,
        decode_ns_per_token: 0,
        jitter_thousandths: 0,
    };
    let job = job(Some(script));
    let lines = trace(&job);
    let expected = counts(named("naive").unwrap(), &job.envelope.workload.shape()).unwrap();
    let Some(Body::End {
        prefill_tokens_computed,
        prefix_tokens_hit,
        decode_tokens,
        kv_bytes_peak,
        warmup_ns,
        ..
    }) = lines.last().map(|line| &line.body)
    else {
        panic!("no end");
    };
    assert_eq!(*prefill_tokens_computed, expected.prefill_tokens_computed);
    assert_eq!(
        (*prefix_tokens_hit, *decode_tokens),
        (0, expected.decode_tokens)
    );
    assert_eq!(
        (*kv_bytes_peak, *warmup_ns),
        (0, 0),
        "nothing is held or warmed"
    );
}

#[test]
fn without_a_script_it_does_not_run() {
    let clock = Cell::new(0);
    let clock = || clock.replace(clock.get() + 1);
    let error = run_arm(&job(None), &host(&clock), Vec::new());
    assert!(error.unwrap_err().to_string().contains("mock = nothing"));
}
