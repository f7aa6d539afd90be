//! What this program writes keeps the schemas of its formats; what is of another version is refused by name.
//!
//! Not here: the schemas themselves and what is committed (`audit/tests/schemas`).

#[path = "../../../audit/tests/schemas/checker.rs"]
mod checker;
#[path = "../../../audit/tests/schemas/wrong.rs"]
mod wrong;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Place, forge, read_json};
use checker::Schema;

/// A run of these arguments that ends with this code.
fn run(place: &Place, arguments: &[&str], code: i32) -> PathBuf {
    let arguments = [&["run"], arguments, &["--json"]].concat();
    let outcome = place.run(&arguments).expect(code).json();
    PathBuf::from(outcome["dir"].as_str().unwrap())
}

#[test]
fn every_file_of_every_kind_of_run_keeps_its_schema() {
    let place = Place::new();
    let smoke = include_str!("../../../workloads/envelopes/smoke.toml");
    let write = |name: &str, text: &str| fs::write(place.work().join(name), text).unwrap();
    write(
        "short.toml",
        &smoke.replacen("reps = 5", "arm_turns = { naive = 2 }\nreps = 3", 1),
    );
    let crowded = smoke.replacen("kv_pages = 4096", "kv_pages = 3", 1);
    let some = "arm_turns = { naive = 1 }\nreps = 1";
    write("crowded.toml", &crowded.replacen("reps = 5", some, 1));
    write("bad.toml", &super::strained::quarantine());
    write("work.toml", super::cells::ENVELOPE);
    let runs = [
        run(&place, &["short.toml"], 0),
        run(&place, &["crowded.toml"], 5),
        run(&place, &["bad.toml"], 0),
        run(&place, &["instrument", "--reps", "1"], 0),
        run(
            &place,
            &["work.toml", "--arm", "fak", "--arm", "fak-unshared"],
            0,
        ),
    ];
    let [envelope, record, line] = ["fak.envelope/1", "fak.run/1", "fak.trace/1"].map(Schema::of);
    for directory in runs {
        let name = directory.display().to_string();
        envelope.accepts(&read_json(&directory.join("envelope.json")), &name);
        record.accepts(&read_json(&directory.join("run.json")), &name);
        let mut lines = 0;
        for trace in fs::read_dir(directory.join("trace")).unwrap() {
            for text in fs::read_to_string(trace.unwrap().path()).unwrap().lines() {
                line.accepts(&serde_json::from_str(text).unwrap(), &name);
                lines += 1;
            }
        }
        assert!(lines > 10, "{name}");
    }
}

#[test]
fn what_was_counted_keeps_its_schemas() {
    let place = Place::new();
    let [envelope, record] = ["fak.envelope/1", "fak.counts/1"].map(Schema::of);
    for name in ["session-ladder", "radix-cache-only", "fleet-routing"] {
        let directory = run(&place, &[name], 0);
        envelope.accepts(&read_json(&directory.join("envelope.json")), name);
        record.accepts(&read_json(&directory.join("run.json")), name);
    }
}

#[test]
fn spread_instrument_and_noise_told_wrongly_are_refused_by_schema_and_auditor_alike() {
    let place = Place::new();
    let directory = place.sealed_run();
    let honest = read_json(&directory.join("run.json"));
    let schema = Schema::of("fak.run/1");
    let recent = ["instrument", "noise", "latencies", "outliers"];
    let mut unread = 0;
    for (what, wrong) in wrong::told_wrongly(&honest) {
        if !recent.iter().any(|name| what.contains(name)) {
            continue;
        }
        let faults = schema.faults(&wrong);
        forge::edit_record(&directory, |record| *record = wrong.clone());
        let report = audit::audit_run(&directory);
        let found: Vec<_> = report
            .findings
            .iter()
            .filter(|it| it.file == "run.json")
            .collect();
        let refused = found
            .iter()
            .any(|it| it.message.contains("FORMAT.md describes"));
        let said = report.render();
        assert!(
            !refused || !faults.is_empty(),
            "{what}: the schema has no fault, but\n{said}"
        );
        assert!(
            faults.is_empty() || !found.is_empty(),
            "{what}: {faults:?}, but\n{said}"
        );
        unread += usize::from(refused);
    }
    assert!(unread > 100, "{unread}");
}

#[test]
fn what_audits_and_replays_answer_keeps_its_schema() {
    let place = Place::new();
    let directory = run(&place, &["smoke", "--arm", "fused", "--reps", "1"], 0);
    let schema = Schema::of("fak.audit/1");
    let name = directory.to_str().unwrap();
    let whole = ["audit", name, "--replay", "100%", "--json"];
    let part = ["audit", name, "--replay", "1", "--json"];
    for arguments in [&["audit", name, "--json"][..], &part, &whole] {
        schema.accepts(&place.run(arguments).expect(0).json(), name);
    }
    forge::trace(&directory, "fused-0", |body| {
        if let workloads::trace::Body::Finish { request, ids, .. } = body
            && request == "a1-t3"
        {
            ids[7] ^= 1;
        }
    });
    schema.accepts(&place.run(&whole).expect(4).json(), name);
}

/// A place with a baseline of `smoke`, and where it is.
fn gated(baseline: &Value) -> (Place, PathBuf) {
    let place = Place::new();
    let path = place.work().join("results/gate/smoke.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, baseline.to_string()).unwrap();
    (place, path)
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/gate/smoke.json")
}

#[test]
fn a_baseline_told_wrongly_anywhere_is_refused_by_schema_and_gate_alike() {
    // What the gate compares by name once the envelope ran, and two fields of the envelope that have defaults.
    let later = [
        "/counters has more",
        "/counters/",
        "/workers is left out",
        "/seed is left out",
    ];
    let honest = read_json(&committed());
    let schema = Schema::of("fak.gate/1");
    let (place, path) = gated(&honest);
    let mut refused = 0;
    for (what, wrong) in wrong::told_wrongly(&honest) {
        if schema.faults(&wrong).is_empty() {
            // An entry of a map: which there must be is for the comparison.
            let entry = what.starts_with("/arms/") || what.starts_with("/answers/");
            assert!(entry && what.ends_with("is left out"), "{what}: no fault");
            continue;
        }
        let is_later = |it: &&str| what.contains(*it) && !what.contains(" is -1");
        if later.iter().any(is_later) {
            continue;
        }
        fs::write(&path, wrong.to_string()).unwrap();
        let code = place.run(&["gate", "smoke"]).output.status.code();
        assert!(matches!(code, Some(2 | 4)), "{what}: {code:?}");
        refused += 1;
    }
    assert!(refused > 150, "{refused}");
}

#[test]
fn a_baseline_of_another_version_is_refused_by_name_and_replaced_on_demand() {
    let honest = fs::read_to_string(committed()).unwrap();
    for tag in ["fak.gate/0", "fak.gate/2"] {
        let mut other = read_json(&committed());
        (other["schema"], other["fresh"]) = (json!(tag), json!(1));
        let (place, path) = gated(&other);
        let shown = place.run(&["gate", "smoke"]).expect(4).stdout();
        for words in [tag, "reads fak.gate/1", "`harness gate smoke --accept`"] {
            assert!(shown.contains(words), "no {words:?} in:\n{shown}");
        }
        let accepted = place.run(&["gate", "smoke", "--accept"]).expect(0);
        accepted.complains(&["replaced without a comparison", tag]);
        assert_eq!(fs::read_to_string(&path).unwrap(), honest);
    }
}

#[test]
fn a_run_of_another_version_is_refused_by_name_by_all_who_read_runs() {
    let place = Place::new();
    let directory = run(&place, &["smoke", "--arm", "fused", "--reps", "1"], 0);
    let name = directory.to_str().unwrap();
    for (tag, advice) in [
        ("fak.run/0", "build.commit, or run the envelope again"),
        ("fak.run/2", "`cargo build -p audit`"),
    ] {
        forge::edit_record(&directory, |record| {
            (record["schema"], record["fresh"]) = (json!(tag), json!(1));
        });
        for said in [&["audit", name][..], &["gate", "--against", name]] {
            let shown = place.run(said).expect(4).stdout();
            assert!(shown.contains(tag) && shown.contains(advice), "{shown}");
        }
        for reader in [
            &["explain", name][..],
            &["compare", name, name],
            &["audit", name, "--replay", "10%"],
        ] {
            place.run(reader).expect(4).complains(&[tag, advice]);
        }
    }
}
