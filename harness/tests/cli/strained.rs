//! Caches under strain, from the command line: a result taken out midway, pages run short, agents one by one.
//!
//! Not here: what such runs must count (`baselines`), or lies about them (`audit`'s corpus).

use std::fs;

use workloads::trace::Body;

use super::{Place, forge};

const SMOKE: &str = include_str!("../../../workloads/envelopes/smoke.toml");

/// `smoke` once, with a result of the first two agents quarantined after turn 1, and the tree in the trace.
pub(crate) fn quarantine() -> String {
    let bad = SMOKE.replacen(
        "[workload]\n",
        "[workload]\nquarantine = { turn = 1, agents = 2 }\n",
        1,
    );
    let kept = bad.replacen("[evidence]\n", "[evidence]\nkv = true\n", 1);
    kept.replacen("reps = 5", "reps = 1", 1)
}

/// Runs this text as an envelope and returns the run's directory.
fn run(place: &Place, text: &str) -> String {
    fs::write(place.work().join("mine.toml"), text).unwrap();
    let outcome = place.run(&["run", "mine.toml", "--json"]).expect(0).json();
    assert_eq!(outcome["identity"]["equal"], true);
    outcome["dir"].as_str().unwrap().to_owned()
}

#[test]
fn a_quarantine_midway_is_audited_drawn_and_named_as_the_reason_of_misses() {
    let place = Place::new();
    let directory = run(&place, &quarantine());
    let audited = place.run(&["audit", &directory]).expect(0).stdout();
    assert!(audited.contains("10 quarantines"), "{audited}");

    let drawn = place.run(&["kv", &directory]).expect(0).stdout();
    for word in [
        "fused, repetition 0",
        "by a2",
        "QUARANTINED from position 108 on",
        "2 texts quarantined",
    ] {
        assert!(drawn.contains(word), "{word:?} not in\n{drawn}");
    }
    let kept = ["kv", &directory, "--arm", "agent-kv", "--json"];
    let kept = place.run(&kept).expect(0).json();
    assert_eq!(kept["arm"], "agent-kv");
    assert_eq!(kept["tombstones"].as_array().unwrap().len(), 2);
    assert!(kept["nodes"].as_array().unwrap().len() >= 6);

    let explained = place.run(&["explain", &directory]).expect(0).stdout();
    assert!(
        explained.contains("4 requests: a text in them was quarantined"),
        "{explained}"
    );
    assert!(
        explained.contains("there the quarantined text begins"),
        "{explained}"
    );
}

#[test]
fn a_barred_prompt_that_matched_is_broken_evidence_for_everyone() {
    let place = Place::new();
    let directory = run(&place, &quarantine());
    forge::trace(directory.as_ref(), "fused-0", |body| {
        if let Body::Prefix {
            request,
            matched,
            own,
            ..
        } = body
            && request == "a0-t2"
        {
            (*matched, *own) = (*matched + 12, *own + 12);
        }
    });
    let refused = place.run(&["audit", &directory]).expect(4).stdout();
    assert!(
        refused.contains("matched is 120, beyond what was quarantined"),
        "{refused}"
    );
    for command in ["kv", "explain"] {
        place.run(&[command, &directory]).expect(4);
    }
}

#[test]
fn a_run_without_a_tree_says_which_envelopes_have_one_and_how_to_get_it() {
    let place = Place::new();
    let directory = place.sealed_run();
    let directory = directory.to_str().unwrap();
    place.run(&["kv", directory]).expect(2).complains(&[
        "kv = true",
        "[evidence]",
        "quarantine-mid-run",
    ]);
    let with_tree = run(&place, &quarantine());
    place
        .run(&["kv", &with_tree, "--arm", "fuse"])
        .expect(2)
        .complains(&["did you mean fused?"]);
    place
        .run(&["kv", &with_tree, "--rep", "1"])
        .expect(2)
        .complains(&["repetitions 0 to 0"]);
}

#[test]
fn pages_that_run_short_cost_reuse_and_are_named_and_agents_one_by_one_lose_none() {
    let place = Place::new();
    let few = SMOKE
        .replacen("kv_pages = 4096", "kv_pages = 5\neviction = \"fifo\"", 1)
        .replacen("reps = 5", "reps = 1", 1);
    let directory = run(&place, &few);
    let explained = place.run(&["explain", &directory]).expect(0).stdout();
    assert!(
        explained.contains("were evicted for want of room"),
        "{explained}"
    );
    let one_by_one = few.replacen("[workload]\n", "[workload]\norder = \"agents\"\n", 1);
    let directory = run(&place, &one_by_one);
    let explained = place.run(&["explain", &directory]).expect(0).stdout();
    assert!(
        !explained.contains("were evicted for want of room"),
        "{explained}"
    );
}

#[test]
fn an_order_that_knows_the_cache_is_stated_counted_and_part_of_the_question() {
    let place = Place::new();
    let few = SMOKE
        .replacen("kv_pages = 4096", "kv_pages = 5", 1)
        .replacen("reps = 5", "reps = 1", 1);
    let order = "[run]\nadmission = { order = \"cache-aware\", overtaken_max = 2 }\n";
    let knowing = few.replacen("[run]\n", order, 1);
    let (first_come, knowing) = (run(&place, &few), run(&place, &knowing));
    let audited = place.run(&["audit", &knowing]).expect(0).stdout();
    let counted = "admissions within the declared bound";
    assert!(audited.contains(counted), "{audited}");
    let audited = place.run(&["audit", &first_come]).expect(0).stdout();
    assert!(!audited.contains(counted), "{audited}");
    let unlike = place.run(&["compare", &first_come, &knowing]).expect(3);
    assert!(
        unlike.stdout().contains("run.admission"),
        "{}",
        unlike.stdout()
    );
}

#[test]
fn what_an_envelope_may_not_ask_of_a_cache_is_refused_with_its_line() {
    let place = Place::new();
    for (from, to, words) in [
        (
            "seed = 1 ",
            "quarantine = { turn = 3, agents = 1 } #",
            "a turn from 1 on with one after it",
        ),
        (
            "seed = 1 ",
            "quarantine = { turn = 1, agents = 4 } #",
            "1 to 3 agents",
        ),
        ("seed = 1 ", "order = \"random\" #", "unknown variant"),
        (
            "kernels = \"auto\" ",
            "eviction = \"mru\" #",
            "unknown variant",
        ),
        (
            "kernels = \"auto\" ",
            "kv_dtype = \"q4_0\" #",
            "unknown variant",
        ),
    ] {
        let wrong = SMOKE.replacen(from, to, 1);
        assert_ne!(wrong, SMOKE);
        fs::write(place.work().join("wrong.toml"), wrong).unwrap();
        let refused = place.run(&["run", "wrong.toml"]).expect(2);
        refused.complains(&["wrong.toml", "line", words]);
    }
}

#[test]
fn a_cache_of_bytes_answers_alike_in_all_arms_is_replayed_as_one_and_is_smaller() {
    let place = Place::new();
    let once = SMOKE.replacen("reps = 5", "reps = 1", 1);
    let in_bytes = once.replacen("kernels = \"auto\" ", "kv_dtype = \"q8_0\" #", 1);
    assert_ne!(in_bytes, once);
    let (plain, bytes) = (run(&place, &once), run(&place, &in_bytes));
    place.run(&["audit", &bytes, "--replay", "50%"]).expect(0);
    let peak = |directory: &str| {
        let record = super::read_json(&std::path::Path::new(directory).join("run.json"));
        let peak = record["arms"]["fused"]["kv_bytes_peak"].as_u64().unwrap();
        (record["effective"]["kv_dtype"].clone(), peak)
    };
    let ((plain_dtype, plain), (dtype, bytes)) = (peak(&plain), peak(&bytes));
    assert_eq!((plain_dtype, dtype), ("f32".into(), "q8_0".into()));
    assert!(bytes * 3 < plain, "{bytes} of {plain}");
}
