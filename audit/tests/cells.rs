//! Runs of cells: a true one passes, and lies about rates, other programs' answers, cells, ratios and limits are caught.
//!
//! Not here: sessions (`runs`, `forgeries`, `leaves`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Layer, audit_run};
use fixture::cells::{REPS, run, stem};
use fixture::{Fixture, ids_sha256, leaves, lie, sha256, simulate};
use serde_json::{Value, json};

fn audited(fixture: &Fixture) -> audit::Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn a_true_run_of_cells_passes() {
    let report = audited(&run());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    assert_eq!(report.recomputed["external measurements"], 2 * 2 * REPS);
    let arms = report.identity.unwrap().arms;
    assert_eq!(arms, ["fak", "fak-unshared"]);
}

fn external<'a>(fixture: &'a mut Fixture, cell: &str, kind: &str) -> &'a mut Value {
    let name = stem(cell, "llama-bench:fa1", 0);
    fixture.lines(&name, kind).remove(0)
}

fn replace(value: &mut Value, from: &str, to: &str) {
    let text = value.as_str().unwrap();
    assert!(text.contains(from), "{text}");
    *value = json!(text.replace(from, to));
}

/// Tells the same lie in one line of every repetition of our arms.
fn everywhere(
    fixture: &mut Fixture,
    arms: &[&str],
    kind: &str,
    place: usize,
    tell: fn(&mut Value),
) {
    for arm in arms {
        for rep in 0..REPS {
            tell(fixture.lines(&stem("fleet", arm, rep), kind)[place]);
        }
    }
}

type Lie = (&'static str, Layer, &'static str, fn(&mut Fixture));

/// Lies in run.json.
fn lies_in_the_record() -> Vec<Lie> {
    let record = Layer::Record;
    vec![
        ("a rate", record, "tokens_per_s", |it| {
            it.set("/cells/0/arms/fak/tokens_per_s", json!(400_000.0));
        }),
        ("a share", record, "share_of_limit", |it| {
            it.set("/cells/0/arms/fak/share_of_limit", json!(0.9));
        }),
        ("a need", record, "needs.bytes", |it| {
            it.set("/cells/1/arms/fak/needs/bytes", json!(133));
        }),
        ("a limit", record, "limit_ns", |it| {
            it.set("/cells/1/arms/fak/needs/limit_ns", json!(341));
        }),
        ("a ratio", record, "speed", |it| {
            it.set("/cells/0/ratios/0/speed", json!(3.5));
        }),
        ("an interval", record, "low", |it| {
            it.set("/cells/0/ratios/0/low", json!(3.5));
        }),
        ("another order", record, "order is", |it| {
            it.record["order"].as_array_mut().unwrap().swap(0, 1);
        }),
        ("a weaker opponent", record, "denominator", |it| {
            it.set("/cells/0/ratios/0/denominator", json!("llama-bench:fa0"));
            for field in ["speed", "low", "high"] {
                it.set(&format!("/cells/0/ratios/0/{field}"), json!(4.0));
            }
        }),
        ("a faster machine", record, "limit_ns", |it| {
            it.set("/machine/ceilings/f32_flop_per_s/2", json!(500_000_000));
        }),
        ("a smaller model", record, "matrix_operations", |it| {
            it.set("/model/numbers/vocab", json!(4));
        }),
        ("no model", Layer::Format, "beyond any model", |it| {
            it.set("/model/numbers/layers", json!(u64::MAX));
        }),
        ("a cell left out", record, "number of cells", |it| {
            it.record["cells"].as_array_mut().unwrap().pop();
        }),
        ("an arm left out", record, "arms of cell", |it| {
            it.record["cells"][0]["arms"]
                .as_object_mut()
                .unwrap()
                .remove("llama-bench:fa1");
        }),
        ("an arm of sessions", record, "arms is not empty", |it| {
            let mut session = Fixture::ladder().record;
            it.record["arms"]["fused"] = session["arms"]["fused"].take();
        }),
        ("a witness", record, "provenance", |it| {
            it.set(
                "/cells/0/arms/llama-bench:fa1/provenance",
                json!("WITNESSED"),
            );
        }),
    ]
}

/// Lies in the answers of the other program.
fn lies_of_others() -> Vec<Lie> {
    vec![
        ("its time", Layer::Record, "timed_ns", |it| {
            replace(
                &mut external(it, "prompt", "external")["output"],
                "30000",
                "60000",
            );
        }),
        ("its time in a fleet", Layer::Record, "timed_ns", |it| {
            replace(
                &mut external(it, "fleet", "external")["output"],
                "0.000030",
                "0.000060",
            );
        }),
        (
            "more time than it ran",
            Layer::Clock,
            "of the 29999 it ran",
            |it| {
                external(it, "prompt", "external")["wall_ns"] = json!(29_999);
            },
        ),
        ("another prompt", Layer::Chain, "n_prompt is \"2\"", |it| {
            replace(
                &mut external(it, "prompt", "external")["output"],
                "\"n_prompt\": 4",
                "\"n_prompt\": 2",
            );
        }),
        ("two measurements", Layer::Chain, "array of one", |it| {
            let output = &mut external(it, "prompt", "external")["output"];
            let one = output.as_str().unwrap().trim_matches(['[', ']']).to_owned();
            *output = json!(format!("[{one},{one}]"));
        }),
    ]
}

/// Lies about which program was asked what, and how it ended.
fn lies_about_others() -> Vec<Lie> {
    vec![
        ("fewer threads", Layer::Prompt, "program.arguments", |it| {
            external(it, "prompt", "begin_external")["program"]["arguments"][3] = json!("1");
        }),
        ("the wrong program", Layer::Prompt, "program.name", |it| {
            external(it, "fleet", "begin_external")["program"]["name"] = json!("llama-bench");
        }),
        ("a path", Layer::Format, "without a path", |it| {
            external(it, "prompt", "begin_external")["program"]["arguments"][1] =
                json!("models/model.gguf");
        }),
        (
            "a program nobody hashed",
            Layer::Format,
            "without a digest",
            |it| {
                external(it, "prompt", "begin_external")["program"]["sha256"] = Value::Null;
            },
        ),
        ("another build", Layer::Settings, "program.sha256", |it| {
            external(it, "prompt", "begin_external")["program"]["sha256"] = json!(sha256("other"));
        }),
        ("another file", Layer::Settings, "the model file", |it| {
            external(it, "prompt", "begin_external")["program"]["arguments"][1] = json!("b.gguf");
        }),
        ("another model", Layer::Settings, "model_sha256", |it| {
            external(it, "prompt", "begin_external")["model_sha256"] = json!(sha256("other"));
        }),
        ("a failure", Layer::Record, "complete", |it| {
            let lines = it
                .traces
                .get_mut(&stem("prompt", "llama-bench:fa1", 0))
                .unwrap();
            lines.truncate(1);
            lines.push(json!({ "t_ns": 3, "kind": "error", "message": "it broke" }));
        }),
        ("nothing measured", Layer::Chain, "the order is", |it| {
            it.traces
                .get_mut(&stem("prompt", "llama-bench:fa1", 0))
                .unwrap()
                .remove(1);
        }),
        ("a trace of ours", Layer::Chain, "the order is", |it| {
            let own = it.traces[&stem("prompt", "fak", 0)].clone();
            it.traces.insert(stem("prompt", "llama-bench:fa1", 0), own);
        }),
    ]
}

/// Moves every line after the first `count` of a kind by so much, as if the clock had stood in between.
fn later(fixture: &mut Fixture, name: &str, (kind, count): (&str, usize), by_ns: u64) {
    let lines = fixture.traces.get_mut(name).unwrap();
    let mut seen = 0;
    for line in lines {
        if seen >= count {
            line["t_ns"] = json!(line["t_ns"].as_u64().unwrap() + by_ns);
        }
        seen += usize::from(line["kind"] == kind);
    }
}

/// Lies that the clock of the trace gives away.
fn lies_about_time() -> Vec<Lie> {
    let clock = Layer::Clock;
    vec![
        ("steps that count double", clock, "its clock leaves", |it| {
            for line in it.lines(&stem("fleet", "fak", 0), "step") {
                line["wall_ns"] = json!(2 * line["wall_ns"].as_u64().unwrap());
            }
        }),
        (
            "a prompt that counts double",
            clock,
            "its clock leaves",
            |it| {
                let name = stem("prompt", "fak", 0);
                it.lines(&name, "step")[0]["wall_ns"] = json!(20_000);
                it.lines(&name, "end")[0]["prefill_ns"] = json!(20_000);
            },
        ),
        (
            "time between steps",
            clock,
            "of the 1000010003 they stand in",
            |it| {
                later(it, &stem("fleet", "fak", 0), ("step", 3), 1_000_000_000);
            },
        ),
        ("time before the only step", clock, "they stand in", |it| {
            later(it, &stem("prompt", "fak", 0), ("request", 1), 1_000_000_000);
        }),
        (
            "a program that outlasts its trace",
            clock,
            "its clock leaves 1000001",
            |it| {
                external(it, "prompt", "external")["wall_ns"] = json!(1_000_002);
            },
        ),
    ]
}

/// Lies in our own traces.
fn lies_of_ours() -> Vec<Lie> {
    vec![
        ("a trace left out", Layer::Seal, "is missing", |it| {
            it.traces.remove(&stem("prompt", "fak", 3));
        }),
        (
            "a trace of the other kind",
            Layer::Chain,
            "another program",
            |it| {
                let played = it.traces[&stem("prompt", "llama-bench:fa1", 0)].clone();
                it.traces
                    .get_mut(&stem("prompt", "fak", 0))
                    .unwrap()
                    .splice(1.., played[1..].to_vec());
            },
        ),
        ("a step that counts less", Layer::Record, "timed_ns", |it| {
            let name = stem("fleet", "fak", 0);
            it.lines(&name, "step")[3]["wall_ns"] = json!(1);
            it.lines(&name, "end")[0]["decode_ns"] = json!(5_001);
        }),
        ("another cell's trace", Layer::Format, "cell", |it| {
            it.lines(&stem("fleet", "fak", 0), "begin")[0]["cell"] = json!("prompt");
        }),
        (
            "agents one after another",
            Layer::Count,
            "decodes 1 of 2 agents",
            |it| {
                everywhere(it, &["fak", "fak-unshared"], "step", 2, |line| {
                    (line["rows"], line["requests"]) = (json!(1), json!(1));
                });
            },
        ),
        (
            "agents that begin alike",
            Layer::Prompt,
            "begins with id",
            |it| {
                everywhere(it, &["fak", "fak-unshared"], "request", 1, |line| {
                    let append = simulate::own(0, 0, 1);
                    let prompt = [simulate::prefix(3), append.clone()].concat();
                    line["append"] = json!(append);
                    line["prompt_sha256"] = json!(ids_sha256(&prompt));
                });
            },
        ),
        ("a shorter answer", Layer::Prompt, "decode_max", |it| {
            everywhere(it, &["fak"], "request", 0, |line| {
                line["decode_max"] = json!(2);
            });
        }),
        ("identity", Layer::Identity, "identity.equal", |it| {
            it.lines(&stem("fleet", "fak-unshared", 4), "finish")[1]["ids"][2] = json!(99);
        }),
    ]
}

/// Lies about how our arms ran.
fn lies_about_settings() -> Vec<Lie> {
    vec![
        ("other settings", Layer::Settings, "settings", |it| {
            everywhere(it, &["fak-unshared"], "begin", 0, |line| {
                line["settings"]["threads"] = json!(1);
            });
        }),
        ("more threads", Layer::Settings, "settings.threads", |it| {
            everywhere(it, &["fak", "fak-unshared"], "begin", 0, |line| {
                line["settings"]["threads"] = json!(4);
            });
        }),
        (
            "a larger pool",
            Layer::Settings,
            "settings.kv_pages",
            |it| {
                everywhere(it, &["fak", "fak-unshared"], "begin", 0, |line| {
                    line["settings"]["kv_pages"] = json!(65);
                });
            },
        ),
        (
            "smaller chunks",
            Layer::Settings,
            "settings.chunk_tokens",
            |it| {
                everywhere(it, &["fak", "fak-unshared"], "begin", 0, |line| {
                    line["settings"]["chunk_tokens"] = json!(1);
                });
            },
        ),
        (
            "sharing that is not declared",
            Layer::Settings,
            "shared_attention",
            |it| {
                everywhere(it, &["fak-unshared"], "begin", 0, |line| {
                    line["settings"]["shared_attention"] = json!(true);
                });
            },
        ),
    ]
}

#[test]
fn every_lie_is_caught_by_the_layer_that_must_catch_it() {
    let others = [lies_of_others(), lies_about_others()].concat();
    let ours = [lies_of_ours(), lies_about_settings(), lies_about_time()].concat();
    let lies = [lies_in_the_record(), others, ours].concat();
    for (name, layer, word, tell) in lies {
        let mut forged = run();
        tell(&mut forged);
        let report = audited(&forged);
        let said = report.render();
        assert_eq!(report.exit_code(), 4, "{name}: {said}");
        let caught = |it: &audit::Finding| it.layer == layer && it.message.contains(word);
        assert!(
            report.findings.iter().any(caught),
            "{name}: no {layer:?} with {word:?} in\n{said}"
        );
    }
}

#[test]
fn every_figure_of_the_record_is_recomputed_or_named_as_asserted() {
    let asserted = [
        "/build/",
        "/sittings/",
        "/model/label",
        "/machine/class",
        "/machine/cpu",
        "/machine/isa",
        "/machine/cores",
        "/machine/memory_bytes",
        "/machine/os",
        "/machine/ceilings/int8", // no product of this run is of integers
        "/model/numbers/quantized",
    ];
    let fixture = run();
    let mut pointers = Vec::new();
    leaves(&fixture.record, "", &mut pointers);
    let mut caught = 0;
    for pointer in &pointers {
        let value = fixture.record.pointer(pointer).unwrap();
        let lie = match value {
            Value::Null if pointer.contains("load1") => json!(1),
            Value::Null if pointer.ends_with("dirty") => json!(true),
            Value::Null if pointer.ends_with("trees") => json!({
                "engine": "e", "workloads": "w", "baselines": "b", "harness": "h",
            }),
            // Rounding to whole nanoseconds hides the last digits of a ceiling; half of one bounds every cell.
            Value::Number(number) if pointer.contains("/ceilings/") => {
                json!(number.as_u64().unwrap() / 2)
            }
            value => lie(value),
        };
        let mut forged = run();
        forged.set(pointer, lie);
        let other_threads = pointer.contains("/ceilings/") && pointer.ends_with("/1");
        let free = other_threads || asserted.iter().any(|name| pointer.contains(name));
        let report = audited(&forged);
        let expected = if free { 0 } else { 4 };
        assert_eq!(
            report.exit_code(),
            expected,
            "{pointer}: {}",
            report.render()
        );
        caught += usize::from(!free);
    }
    assert!(caught > 250, "{caught}");
}

#[test]
fn a_divergence_withholds_the_ratios_of_its_cell_and_exits_1() {
    let mut forged = run();
    forged.lines(&stem("fleet", "fak-unshared", 4), "finish")[1]["ids"][2] = json!(99);
    forged.set("/identity/equal", json!(false));
    let at = json!({
        "cell": "fleet", "arm": "fak-unshared", "rep": 4, "agent": 1, "turn": 0, "position": 2,
    });
    forged.set("/identity/first_divergence", at);
    for ratio in 0..2 {
        for field in ["speed", "low", "high", "verdict"] {
            forged.set(&format!("/cells/0/ratios/{ratio}/{field}"), Value::Null);
        }
        forged.set(
            &format!("/cells/0/ratios/{ratio}/withheld"),
            json!("answers differ"),
        );
    }
    let report = audited(&forged);
    assert_eq!(report.exit_code(), 1, "{}", report.render());
}

/// Audits the run with every leaf below `pointer`s in turn set to values at the edges; only a panic fails.
fn survives(place: fn(&mut Fixture) -> &mut Value, wanted: fn(&str) -> bool) -> usize {
    let mut pointers = Vec::new();
    leaves(place(&mut run()), "", &mut pointers);
    pointers.retain(|pointer| wanted(pointer));
    for pointer in &pointers {
        for edge in [
            json!(0),
            json!(1 << 20),
            json!(u64::MAX),
            json!(1e308),
            json!(""),
            Value::Null,
        ] {
            let mut forged = run();
            *place(&mut forged).pointer_mut(pointer).unwrap() = edge;
            forged.redeclare();
            assert!([0, 1, 4].contains(&audited(&forged).exit_code()));
        }
    }
    pointers.len()
}

#[test]
fn no_value_at_the_edge_of_its_type_stops_the_audit() {
    let envelope = survives(
        |it| &mut it.envelope,
        |pointer| pointer.starts_with("/workload"),
    );
    let numbers = survives(
        |it| &mut it.record,
        |pointer| pointer.starts_with("/model/numbers") || pointer.contains("/ceilings/"),
    );
    let theirs = survives(|it| external(it, "fleet", "external"), |_| true);
    let steps = survives(|it| it.lines("fleet.fak-0", "step").remove(2), |_| true);
    assert_eq!((envelope, numbers), (15, 15));
    assert!(theirs > 2 && steps > 3);
}
