//! Spread, instrument and noise in whole runs: stated, shown, recomputed by the auditor, and the rule tested on itself.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::forge::reseal;
use super::{Place, read_json};

/// A sealed run of all arms with so many repetitions.
fn run(place: &Place, envelope: &str, reps: &str) -> PathBuf {
    let outcome = place.run(&["run", envelope, "--reps", reps, "--json"]);
    PathBuf::from(outcome.expect(0).json()["dir"].as_str().unwrap())
}

#[test]
fn every_figure_of_spread_and_instrument_is_recomputed() {
    let place = Place::new();
    let directory = run(&place, "smoke", "6");
    let honest = read_json(&directory.join("run.json"));
    assert_eq!(honest["arms"]["fused"]["latencies"]["ttft_ns"]["count"], 72);
    for pointer in [
        "/arms/naive/latencies/ttft_ns/percentiles/p50/nearest",
        "/arms/naive/latencies/tpot_ns/percentiles/p90/nearest",
        "/arms/fused/latencies/e2e_ns/percentiles/p90/linear",
        "/arms/fused/latencies/e2e_ns/count",
        "/instrument/floor_ns",
        "/instrument/clock_step_ns",
        "/sittings/0/noise/spread",
    ] {
        let mut forged = honest.clone();
        let value = forged.pointer_mut(pointer).unwrap();
        *value = match value.as_u64() {
            Some(number) => json!(number + 1),
            None => json!(value.as_f64().unwrap() + 1.0),
        };
        reseal(&directory, &forged);
        assert_eq!(audit::audit_run(&directory).exit_code(), 4, "{pointer}");
    }
    for (pointer, lie) in [
        ("/arms/naive/outliers", json!([0, 1, 2, 3, 4, 5])),
        ("/ratios/3/outliers", json!([0, 1, 2, 3, 4, 5])),
        (
            "/arms/naive/at_instrument_limit",
            json!(honest["arms"]["naive"]["at_instrument_limit"] == false),
        ),
        ("/arms/naive/latencies", Value::Null),
        ("/instrument", Value::Null),
        (
            "/arms/naive/latencies/e2e_ns/percentiles/p99",
            json!({ "nearest": 1, "linear": 1.0 }),
        ),
    ] {
        let mut forged = honest.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        forged.pointer_mut(parent).unwrap()[key] = lie;
        reseal(&directory, &forged);
        assert_eq!(audit::audit_run(&directory).exit_code(), 4, "{pointer}");
    }
    reseal(&directory, &honest);
    assert_eq!(audit::audit_run(&directory).exit_code(), 0);
}

#[test]
fn cells_are_marked_and_their_far_samples_recomputed_too() {
    let place = Place::new();
    fs::write(place.work().join("work.toml"), super::cells::ENVELOPE).unwrap();
    let ours = [
        "run",
        "work.toml",
        "--arm",
        "fak",
        "--arm",
        "fak-unshared",
        "--json",
    ];
    let outcome = place.run(&ours).expect(0).json();
    let directory = PathBuf::from(outcome["dir"].as_str().unwrap());
    let honest = read_json(&directory.join("run.json"));
    for (pointer, name, lie) in [
        ("/cells/0/arms/fak", "outliers", json!([0, 1, 2])),
        ("/cells/0/ratios/0", "outliers", json!([0, 1, 2])),
        ("/cells/0/arms/fak", "outliers", Value::Null),
        ("/cells/0/arms/fak", "at_instrument_limit", Value::Null),
        ("", "instrument", Value::Null),
    ] {
        let mut forged = honest.clone();
        forged.pointer_mut(pointer).unwrap()[name] = lie;
        reseal(&directory, &forged);
        assert_eq!(
            audit::audit_run(&directory).exit_code(),
            4,
            "{pointer} {name}"
        );
    }
    reseal(&directory, &honest);
    assert_eq!(audit::audit_run(&directory).exit_code(), 0);
}

#[test]
fn results_too_near_the_instrument_are_marked_in_record_and_audit() {
    let place = Place::new();
    let directory = run(&place, "smoke", "1");
    let mut slow = read_json(&directory.join("run.json"));
    // An instrument that takes a second leaves nothing that stands above it.
    slow["instrument"]["step_lag_ns"] = json!(1_000_000_000);
    let parts = [
        "clock_step_ns",
        "step_lag_ns",
        "line_write_ns",
        "line_parse_ns",
    ];
    let floor_ns: u64 = parts
        .iter()
        .map(|name| slow["instrument"][name].as_u64().unwrap())
        .sum();
    slow["instrument"]["floor_ns"] = json!(floor_ns);
    let mark = |record: &mut Value, marked: bool| {
        for (_, arm) in record["arms"].as_object_mut().unwrap() {
            arm["at_instrument_limit"] = json!(marked);
        }
    };
    mark(&mut slow, false);
    reseal(&directory, &slow);
    let unmarked = audit::audit_run(&directory).render();
    assert!(
        unmarked.contains("at_instrument_limit is false, the traces give true"),
        "{unmarked}"
    );
    mark(&mut slow, true);
    reseal(&directory, &slow);
    assert_eq!(audit::audit_run(&directory).exit_code(), 0);
}

#[test]
fn a_run_from_before_any_of_this_still_passes_and_a_mixture_does_not() {
    let place = Place::new();
    let directory = run(&place, "smoke", "1");
    let mut older = read_json(&directory.join("run.json"));
    let strip = |value: &mut Value, names: &[&str]| {
        let object = value.as_object_mut().unwrap();
        for name in names {
            object.remove(*name);
        }
    };
    strip(&mut older, &["instrument"]);
    strip(&mut older["sittings"][0], &["noise"]);
    reseal(&directory, &older);
    let said = audit::audit_run(&directory).render();
    assert!(said.contains("stated without an instrument"), "{said}");
    for (_, arm) in older["arms"].as_object_mut().unwrap() {
        strip(arm, &["latencies", "outliers", "at_instrument_limit"]);
    }
    for ratio in older["ratios"].as_array_mut().unwrap() {
        strip(ratio, &["outliers"]);
    }
    reseal(&directory, &older);
    let report = audit::audit_run(&directory);
    assert_eq!(report.exit_code(), 0);
    let missed = |it: &String| it.contains("run.json states no `instrument`");
    assert!(report.not_checked.iter().any(missed), "{}", report.render());
}

#[test]
fn the_scripted_arm_runs_beside_others_without_a_part_in_identity_or_ratios() {
    let place = Place::new();
    let smoke = include_str!("../../../workloads/envelopes/smoke.toml");
    let both = smoke
        .replace("reps = 5", "reps = 1")
        .replace("\"instance-shared\", \"fused\"", "\"fused\", \"mock\"")
        + "\n[mock]\nstep_ns = 30000\n";
    fs::write(place.work().join("both.toml"), both).unwrap();
    let outcome = place.run(&["run", "both.toml", "--json"]).expect(0).json();
    let mock = &outcome["arms"]["mock"];
    assert_eq!(
        (&mock["provenance"], &mock["kv_bytes_peak"]),
        (&json!("SIMULATED"), &json!(0))
    );
    assert_eq!(
        mock["prefill_tokens_computed"],
        outcome["arms"]["naive"]["prefill_tokens_computed"]
    );
    let identity = &outcome["identity"];
    assert_eq!(identity["equal"], true);
    assert!(
        !identity["arms"]
            .as_array()
            .unwrap()
            .contains(&json!("mock"))
    );
    let ratios = outcome["ratios"].as_array().unwrap();
    assert!(
        ratios
            .iter()
            .all(|it| it["arm"] != "mock" && it["denominator"] != "mock")
    );
    let directory = PathBuf::from(outcome["dir"].as_str().unwrap());
    let honest = audit::audit_run(&directory);
    assert_eq!(honest.exit_code(), 0, "{}", honest.render());
    let mut forged = read_json(&directory.join("run.json"));
    forged["arms"]["mock"]["provenance"] = json!("WITNESSED");
    reseal(&directory, &forged);
    let said = audit::audit_run(&directory).render();
    assert!(
        said.contains("WITNESSED") && said.contains("SIMULATED"),
        "{said}"
    );
}

#[test]
fn a_script_goes_with_its_arm_and_alone_it_is_compared_with_nobody() {
    let place = Place::new();
    let smoke = include_str!("../../../workloads/envelopes/smoke.toml");
    let both =
        smoke.replace("\"instance-shared\", \"fused\"", "\"mock\"") + "\n[mock]\nstep_ns = 30000\n";
    fs::write(place.work().join("both.toml"), both).unwrap();
    for (arm, requests, said) in [
        (
            "naive",
            12,
            "the command line replaced mock, run.arms, run.reps",
        ),
        ("mock", 0, "the command line replaced run.arms, run.reps"),
    ] {
        let asked = ["run", "both.toml", "--arm", arm, "--reps", "1", "--json"];
        let outcome = place.run(&asked).expect(0).json();
        assert_eq!(outcome["identity"]["requests"], requests);
        let report = audit::audit_run(std::path::Path::new(outcome["dir"].as_str().unwrap()));
        assert_eq!(report.exit_code(), 0, "{}", report.render());
        assert!(report.render().contains(said), "{}", report.render());
    }
}

#[test]
fn the_closing_tables_show_percentiles_by_licence_and_the_noise() {
    let place = Place::new();
    let shown = place.run(&["run", "instrument", "--reps", "1", "--wait-quiet", "1"]);
    let shown = shown.expect(0).stdout();
    for words in [
        "TTFT p50",
        "TPOT p50",
        "E2E p50",
        "p90 from 64",
        "noise: ",
        "only scripted ones",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    assert!(
        !shown.contains("E2E p90"),
        "32 requests do not allow it:\n{shown}"
    );
}

#[test]
fn a_mock_without_its_script_and_a_script_without_its_mock_are_refused() {
    let place = Place::new();
    place
        .run(&["run", "smoke", "--arm", "mock"])
        .expect(2)
        .complains(&["[mock] table with step_ns"]);
    let smoke = include_str!("../../../workloads/envelopes/smoke.toml");
    fs::write(
        place.work().join("idle.toml"),
        format!("{smoke}\n[mock]\nstep_ns = 1\n"),
    )
    .unwrap();
    place
        .run(&["run", "idle.toml"])
        .expect(2)
        .complains(&["mock = a table", "add the arm mock"]);
}

#[test]
fn the_rule_keeps_its_promises_and_too_few_runs_cannot_tell() {
    let place = Place::new();
    let told = place.run(&["selftest", "statistics", "--trials", "1000", "--json"]);
    let told = told.expect(0).json();
    assert_eq!(told["scenes"].as_array().unwrap().len(), 36);
    let promises = told["promises"].as_array().unwrap();
    assert_eq!(promises.len(), 2);
    assert!(promises.iter().all(|it| it["state"] == "HOLDS"), "{told}");
    // So few runs cannot show that a rate is under two in a hundred, whatever they say.
    let few = place.run(&["selftest", "statistics", "--trials", "10"]);
    let said = few.expect(3).stdout();
    assert!(
        said.contains("UNDECIDED") && !said.contains("BROKEN"),
        "{said}"
    );
    let endless = u64::MAX.to_string();
    place
        .run(&["selftest", "statistics", "--trials", &endless])
        .expect(2)
        .complains(&["10000000"]);
}
