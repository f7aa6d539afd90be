//! Arms of unequal turns: compared in the turns both play, in tokens and answers; every other comparison is refused.
//!
//! Not here: runs whose arms all play everything (`runs`, `forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Layer, Report, audit_run};
use fixture::{AGENTS, DECODE, Fixture, PREFIX, answers, ids_sha256, scheduled, sha256, simulate};
use serde_json::{Value, json};

const REPS: u64 = 5;
/// Prompt tokens of a first turn without any cache.
const FIRST: u64 = AGENTS * PREFIX;

/// The ladder, with `naive` only in its first turn.
fn uneven() -> Fixture {
    let mut fixture = Fixture::ladder();
    fixture.envelope["run"]["arm_turns"] = json!({ "naive": 1 });
    for rep in 0..REPS {
        shorten(&mut fixture, rep);
    }
    let median = fixture.record["arms"]["naive"]["samples"][REPS as usize / 2].clone();
    let (ids, logits): (Vec<_>, Vec<_>) = (0..AGENTS)
        .map(|agent| {
            (
                simulate::output(agent, 0),
                simulate::logits_sha256(agent, 0),
            )
        })
        .unzip();
    let figures = json!({
        "requests": AGENTS, "prefill_tokens_computed": FIRST, "prefill_tokens_logical": FIRST,
        "oracle_prefill_tokens": FIRST, "prefix_tokens_hit": 0, "reuse_rate": 0.0,
        "decode_tokens": AGENTS * DECODE, "wall_ns": median["wall_ns"],
        "prefill_ns": median["prefill_ns"], "decode_ns": median["decode_ns"],
        "output_sha256": ids_sha256(&ids.concat()), "logits_sha256": sha256(logits.concat()),
    });
    for (name, value) in figures.as_object().unwrap() {
        fixture.set(&format!("/arms/naive/{name}"), value.clone());
    }
    for (row, arm, tokens) in [(0, "agent-kv", 1.0), (5, "fused", AGENTS as f64)] {
        let ratio = &mut fixture.record["ratios"][row];
        for name in ["wall", "wall_low", "wall_high", "prefill", "verdict"] {
            ratio[name] = Value::Null;
        }
        ratio["prefill_tokens"] = json!(tokens);
        ratio["withheld"] = json!(format!("unequal turns: {arm} 2, naive 1"));
    }
    fixture.redeclare();
    fixture
}

/// Ends a trace of `naive` where its second turn would begin.
fn shorten(fixture: &mut Fixture, rep: u64) {
    let lines = fixture.traces.get_mut(&format!("naive-{rep}")).unwrap();
    let mut end = lines.pop().unwrap();
    let second = lines.iter().position(|line| line["id"] == "a0-t1").unwrap();
    lines.truncate(second);
    let sum = |phase: &str| -> u64 {
        let steps = lines.iter().filter(|line| line["phase"] == phase);
        steps.map(|line| line["wall_ns"].as_u64().unwrap()).sum()
    };
    let first = lines.iter().find(|line| line["kind"] == "request").unwrap();
    let t_ns = |line: &Value| line["t_ns"].as_u64().unwrap();
    let (wall_ns, prefill_ns) = (t_ns(&lines[second - 1]) - t_ns(first), sum("prefill"));
    let decode_ns = sum("decode");
    let times = json!({ "wall_ns": wall_ns, "prefill_ns": prefill_ns, "decode_ns": decode_ns });
    let counters = json!({
        "requests": AGENTS, "prefill_tokens_computed": FIRST, "prefill_tokens_logical": FIRST,
        "prefix_tokens_hit": 0, "decode_tokens": AGENTS * DECODE,
    });
    end["t_ns"] = lines[second - 1]["t_ns"].clone();
    let sample = &mut fixture.record["arms"]["naive"]["samples"][rep as usize];
    for (name, value) in times.as_object().unwrap() {
        sample[name] = value.clone();
    }
    for (name, value) in times
        .as_object()
        .unwrap()
        .iter()
        .chain(counters.as_object().unwrap())
    {
        end[name] = value.clone();
    }
    lines.push(end);
}

fn audited(fixture: &Fixture) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

/// The audit fails, and a finding of this layer says this.
fn refused(fixture: &Fixture, layer: Layer, word: &str) {
    let report = audited(fixture);
    assert_eq!(report.exit_code(), 4, "{word}: {}", report.render());
    let named = report
        .findings
        .iter()
        .any(|finding| finding.layer == layer && finding.to_string().contains(word));
    assert!(
        named,
        "no {layer:?} finding says {word:?} in\n{}",
        report.render()
    );
}

#[test]
fn an_arm_may_play_fewer_turns_and_is_compared_over_those() {
    let report = audited(&uneven());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    let identity = report.identity.unwrap();
    assert_eq!((identity.requests, identity.arms.len()), (AGENTS * 2, 5));
}

#[test]
fn more_or_fewer_turns_than_declared_are_refused() {
    let mut more = Fixture::ladder();
    more.envelope["run"]["arm_turns"] = json!({ "naive": 1 });
    more.redeclare();
    refused(
        &more,
        Layer::Prompt,
        "outside the declared 2 agents and 1 turns",
    );
    refused(&more, Layer::Count, "the sum of requests");

    let mut fewer = uneven();
    fewer.envelope["run"]
        .as_object_mut()
        .unwrap()
        .remove("arm_turns");
    fewer.redeclare();
    refused(&fewer, Layer::Count, "the sum of requests");
}

#[test]
fn turns_that_cannot_be_declared_are_refused() {
    for turns in [
        json!({ "naive": 0 }),
        json!({ "naive": 2 }),
        json!({ "naive": u64::MAX }),
        json!({ "mock": 1 }),
    ] {
        let mut fixture = uneven();
        fixture.envelope["run"]["arm_turns"] = turns;
        fixture.redeclare();
        refused(&fixture, Layer::Format, "run.arm_turns");
    }
}

#[test]
fn an_arm_of_fewer_turns_is_due_the_first_of_them_and_the_clock_withholds_its_ratios() {
    let offsets = scheduled::offsets("constant");
    let slo = json!({ "e2e_ms": 2 });
    let fixture = scheduled::by_clock(uneven(), "constant", &offsets, Some(slo));
    assert_eq!(fixture.record["arms"]["naive"]["goodput"]["offered"], 10);
    let report = audited(&fixture);
    assert_eq!(report.exit_code(), 0, "{}", report.render());
}

#[test]
fn a_ratio_over_unequal_turns_is_refused() {
    let total = simulate::counts("fused").0 as f64;
    let six = |value: f64| (value * 1e6).round() / 1e6;
    for (field, lie, word) in [
        // Two turns of `fused` against one of `naive`.
        (
            "prefill_tokens",
            json!(six(FIRST as f64 / total)),
            "ratios[5].prefill_tokens",
        ),
        ("wall", json!(3.0), "ratios[5].wall"),
        ("prefill", json!(3.0), "ratios[5].prefill"),
        ("verdict", json!("FASTER"), "ratios[5].verdict"),
        ("withheld", Value::Null, "ratios[5].withheld"),
        ("withheld", json!("no reason"), "ratios[5].withheld"),
    ] {
        let mut fixture = uneven();
        fixture.set(&format!("/ratios/5/{field}"), lie);
        refused(&fixture, Layer::Record, word);
    }
}

#[test]
fn answers_are_compared_in_turns_the_first_run_does_not_play() {
    let mut fixture = uneven();
    for rep in 0..REPS {
        for line in fixture.lines(&format!("fused-{rep}"), "finish") {
            if line["request"] == "a1-t1" {
                line["ids"][1] = json!(77);
            }
        }
    }
    let changed = |agent, turn| match (agent, turn) {
        (1, 1) => vec![simulate::output(1, 1)[0], 77],
        _ => simulate::output(agent, turn),
    };
    fixture.set("/arms/fused/output_sha256", json!(answers(changed).0));
    refused(&fixture, Layer::Identity, "identity.equal");
}

#[test]
fn what_the_client_says_is_compared_in_the_turns_each_plays() {
    let mut fixture = uneven();
    for line in fixture.lines("fused-3", "request") {
        if line["id"] == "a1-t1" {
            line["append"][1] = json!(7);
        }
    }
    refused(&fixture, Layer::Prompt, "client-supplied ids of turn 1");
    let mut fixture = uneven();
    for line in fixture.lines("naive-3", "text") {
        line["ids"][1] = json!(7);
    }
    refused(&fixture, Layer::Prompt, "client-supplied ids of turn 0");
}
