//! Lies that are sealed correctly: chain and SHA256SUMS are recomputed after each, so only re-counting can catch them.
//!
//! Not here: damage that the seal catches (`runs`, `hostile`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Layer, audit_run};
use fixture::{Fixture, answers, ids_sha256, simulate};
use serde_json::{Value, json};

fn audited(fixture: &Fixture) -> audit::Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

struct Forgery {
    name: &'static str,
    layer: Layer,
    word: &'static str,
    forge: fn(&mut Fixture),
}

fn forgery(
    name: &'static str,
    layer: Layer,
    word: &'static str,
    forge: fn(&mut Fixture),
) -> Forgery {
    Forgery {
        name,
        layer,
        word,
        forge,
    }
}

/// A lie told in every repetition of `fused` alike.
fn everywhere(fixture: &mut Fixture, kind: &str, place: usize, tell: fn(&mut Value)) {
    for rep in 0..5 {
        tell(fixture.lines(&format!("fused-{rep}"), kind)[place]);
    }
}

fn trace<'a>(fixture: &'a mut Fixture, name: &str) -> &'a mut Vec<Value> {
    fixture.traces.get_mut(name).unwrap()
}

fn place_of(lines: &[Value], kind: &str, request: &str) -> usize {
    let is_it = |line: &Value| {
        line["kind"] == kind && (line["request"] == request || line["id"] == request)
    };
    lines.iter().position(is_it).unwrap()
}

/// `fused` matches one position more than existed, and all its sums agree.
fn overmatch(fixture: &mut Fixture) {
    everywhere(fixture, "prefix", 2, |line| {
        line["matched"] = json!(line["matched"].as_u64().unwrap() + 1);
        line["own"] = json!(line["own"].as_u64().unwrap() + 1);
    });
    everywhere(fixture, "prefill", 2, |line| line["carried"] = json!(0));
    everywhere(fixture, "end", 0, |line| {
        line["prefix_tokens_hit"] = json!(line["prefix_tokens_hit"].as_u64().unwrap() + 1);
        line["carried_tokens"] = json!(1);
    });
    let arm = &mut fixture.record["arms"]["fused"];
    arm["prefix_tokens_hit"] = json!(arm["prefix_tokens_hit"].as_u64().unwrap() + 1);
    arm["carried_tokens"] = json!(1);
    arm["reuse_rate"] = json!(0.642_857);
}

/// Carried and computed swap a token between two requests; every sum stays.
fn miscarry(fixture: &mut Fixture) {
    everywhere(fixture, "prefill", 2, |line| {
        (line["carried"], line["computed"]) = (json!(0), json!(3));
    });
    everywhere(fixture, "prefill", 3, |line| {
        (line["carried"], line["computed"]) = (json!(2), json!(1));
    });
}

/// `fused` answers differently; the record claims identity and is right in all else.
fn false_identity(fixture: &mut Fixture) {
    everywhere(fixture, "finish", 3, |line| line["ids"][1] = json!(77));
    let changed = |agent, turn| match (agent, turn) {
        (1, 1) => vec![simulate::output(1, 1)[0], 77],
        _ => simulate::output(agent, turn),
    };
    fixture.set("/arms/fused/output_sha256", json!(answers(changed).0));
}

fn swap_turns(fixture: &mut Fixture) {
    let lines = trace(fixture, "agent-kv-0");
    let (early, late) = (
        place_of(lines, "request", "a0-t0"),
        place_of(lines, "request", "a0-t1"),
    );
    let (early_t_ns, late_t_ns) = (lines[early]["t_ns"].clone(), lines[late]["t_ns"].clone());
    lines.swap(early, late);
    (lines[early]["t_ns"], lines[late]["t_ns"]) = (early_t_ns, late_t_ns);
}

/// Two agents are handed the same result text.
fn same_results(fixture: &mut Fixture) {
    for lines in fixture.traces.values_mut() {
        let place = place_of(lines, "request", "a1-t1");
        lines[place]["append"] = json!([510, 511]);
        let prompt: Vec<u64> = (1..=5)
            .chain(simulate::output(1, 0))
            .chain([510, 511])
            .collect();
        lines[place]["prompt_sha256"] = json!(ids_sha256(&prompt));
    }
}

/// One arm is asked something else than the others.
fn other_question(fixture: &mut Fixture) {
    for rep in 0..5 {
        let lines = trace(fixture, &format!("fused-{rep}"));
        let place = place_of(lines, "request", "a1-t1");
        lines[place]["append"] = json!([590, 591]);
        let prompt: Vec<u64> = (1..=5)
            .chain(simulate::output(1, 0))
            .chain([590, 591])
            .collect();
        lines[place]["prompt_sha256"] = json!(ids_sha256(&prompt));
    }
}

fn false_counts_and_prompts() -> Vec<Forgery> {
    vec![
        forgery(
            "matched beyond the oracle",
            Layer::Reuse,
            "beyond the oracle",
            overmatch,
        ),
        forgery(
            "a carried token miscounted",
            Layer::Count,
            "carried is 0",
            miscarry,
        ),
        forgery(
            "identity claimed",
            Layer::Identity,
            "identity.equal",
            false_identity,
        ),
        forgery(
            "turns swapped",
            Layer::Chain,
            "continues with agent 0, turn 0",
            swap_turns,
        ),
        forgery(
            "the same result twice",
            Layer::Prompt,
            "could coincide",
            same_results,
        ),
        forgery(
            "another question",
            Layer::Prompt,
            "client-supplied",
            other_question,
        ),
        forgery(
            "pages shared where nothing is",
            Layer::Format,
            "settings.shared_attention",
            |f| trace(f, "agent-kv-2")[0]["settings"]["shared_attention"] = json!(true),
        ),
        forgery(
            "pages shared in some repetitions",
            Layer::Record,
            "settings",
            |f| trace(f, "fused-3")[0]["settings"]["shared_attention"] = json!(false),
        ),
        forgery("a prompt hash", Layer::Prompt, "prompt_sha256", |f| {
            f.lines("naive-0", "request")[2]["prompt_sha256"] = json!("0".repeat(64));
        }),
    ]
}

fn traces_out_of_order() -> Vec<Forgery> {
    vec![
        forgery("a trace without its end", Layer::Chain, "truncated", |f| {
            trace(f, "naive-0").pop();
        }),
        forgery(
            "a line after the end",
            Layer::Chain,
            "nothing may follow",
            |f| {
                let again = trace(f, "naive-0").last().unwrap().clone();
                trace(f, "naive-0").push(again);
            },
        ),
        forgery("a trace without its begin", Layer::Chain, "`begin`", |f| {
            trace(f, "naive-0").remove(0);
        }),
        forgery("a finish left out", Layer::Chain, "turn 1", |f| {
            let place = place_of(trace(f, "agent-kv-0"), "finish", "a0-t0");
            trace(f, "agent-kv-0").remove(place);
        }),
        forgery(
            "a finish told twice",
            Layer::Chain,
            "needs it Prefilled",
            |f| {
                let place = place_of(trace(f, "agent-kv-0"), "finish", "a0-t0");
                let again = trace(f, "agent-kv-0")[place].clone();
                trace(f, "agent-kv-0").insert(place + 1, again);
            },
        ),
        forgery(
            "a whole request left out",
            Layer::Count,
            "closed form",
            |f| {
                let gone = |line: &Value| line["id"] == "a1-t1" || line["request"] == "a1-t1";
                trace(f, "agent-kv-0").retain(|line| !gone(line));
            },
        ),
        forgery("time running back", Layer::Chain, "before the", |f| {
            trace(f, "fused-3")[4]["t_ns"] = json!(1);
        }),
    ]
}

fn lines_that_contradict() -> Vec<Forgery> {
    vec![
        forgery(
            "tokens later than the finish",
            Layer::Count,
            "token_t_ns",
            |f| {
                f.lines("fused-0", "finish")[0]["token_t_ns"] = json!([1, 900_000]);
            },
        ),
        forgery(
            "a batch wider than what was open",
            Layer::Count,
            "batch",
            |f| {
                f.lines("fused-0", "finish")[0]["batch"] = json!([1, 3]);
            },
        ),
        forgery("an output cut short", Layer::Count, "reason", |f| {
            let finish = f.lines("fused-0", "finish").pop().unwrap();
            for field in ["ids", "token_t_ns", "batch"] {
                finish[field].as_array_mut().unwrap().pop();
            }
        }),
        forgery(
            "an unknown kind",
            Layer::Format,
            "no line is of kind",
            |f| {
                trace(f, "naive-0")[3]["kind"] = json!("boast");
            },
        ),
        forgery("an unknown field", Layer::Format, "unknown field", |f| {
            f.record["medal"] = json!("gold");
        }),
        forgery("a missing null", Layer::Format, "missing field", |f| {
            f.record.as_object_mut().unwrap().remove("verdict");
        }),
    ]
}

fn false_records() -> Vec<Forgery> {
    vec![
        forgery("an interval too narrow", Layer::Record, "wall_low", |f| {
            f.set("/ratios/0/wall_low", json!(1.799_999));
        }),
        forgery(
            "a verdict",
            Layer::Record,
            "the traces give \"\\\"PARITY",
            |f| {
                f.set("/verdict", json!("FASTER"));
                f.set("/ratios/3/verdict", json!("FASTER"));
            },
        ),
        forgery(
            "a ratio left out",
            Layer::Record,
            "the number of ratios",
            |f| {
                f.record["ratios"].as_array_mut().unwrap().remove(3);
            },
        ),
        forgery(
            "a ratio invented",
            Layer::Record,
            "the number of ratios",
            |f| {
                let more = f.record["ratios"][5].clone();
                f.record["ratios"].as_array_mut().unwrap().push(more);
            },
        ),
        forgery("an arm invented", Layer::Record, "arms are", |f| {
            f.record["arms"]["mock"] = f.record["arms"]["fused"].clone();
        }),
        forgery("a process run twice", Layer::Record, "order", |f| {
            let again = f.record["order"][0].clone();
            f.record["order"].as_array_mut().unwrap().push(again);
        }),
        forgery("a slower sample hidden", Layer::Record, "samples", |f| {
            f.record["arms"]["fused"]["samples"]
                .as_array_mut()
                .unwrap()
                .pop();
        }),
    ]
}

fn false_declarations() -> Vec<Forgery> {
    vec![
        forgery(
            "fewer repetitions declared",
            Layer::Seal,
            "does not belong",
            |f| {
                f.envelope["run"]["arm_reps"]["fused"] = json!(4);
                f.redeclare();
            },
        ),
        forgery(
            "more repetitions declared",
            Layer::Seal,
            "is missing",
            |f| {
                f.envelope["run"]["arm_reps"]["fused"] = json!(6);
                f.redeclare();
            },
        ),
        forgery(
            "a shape that was not run",
            Layer::Prompt,
            "outside the declared",
            |f| {
                f.envelope["workload"]["agents"] = json!(1);
                f.redeclare();
            },
        ),
        forgery("a shape beyond 64 bits", Layer::Format, "64 bits", |f| {
            f.envelope["workload"]["turns"] = json!(u64::MAX);
            f.redeclare();
        }),
        forgery("repetitions without end", Layer::Format, "arm_reps", |f| {
            f.envelope["run"]["arm_reps"]["fused"] = json!(u64::MAX);
            f.redeclare();
        }),
        forgery(
            "kernels that were not obeyed",
            Layer::Record,
            "requested kernels",
            |f| {
                f.envelope["run"]["kernels"] = json!("avx2");
                f.set("/requested/kernels", json!("avx2"));
                f.redeclare();
            },
        ),
        forgery(
            "counters beyond 64 bits in sum",
            Layer::Count,
            "computed",
            |f| {
                f.lines("fused-0", "prefill")[0]["computed"] = json!(u64::MAX);
            },
        ),
    ]
}

#[test]
fn every_forgery_is_caught_by_its_layer_and_named() {
    let tables = [
        false_counts_and_prompts(),
        traces_out_of_order(),
        lines_that_contradict(),
        false_records(),
        false_declarations(),
    ];
    for Forgery {
        name,
        layer,
        word,
        forge,
    } in tables.into_iter().flatten()
    {
        let mut fixture = Fixture::ladder();
        forge(&mut fixture);
        let report = audited(&fixture);
        assert_eq!(report.exit_code(), 4, "{name}: {}", report.render());
        let named = report
            .findings
            .iter()
            .any(|finding| finding.layer == layer && finding.to_string().contains(word));
        assert!(
            named,
            "{name}: no {layer:?} finding says {word:?} in\n{}",
            report.render()
        );
    }
}
