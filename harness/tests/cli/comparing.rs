//! Two runs that must not be taken for equal, and two that must not be taken for unlike.

use std::fs;

use super::{Place, forge};

const SMOKE: &str = include_str!("../../../workloads/envelopes/smoke.toml");

/// Runs an envelope once and returns its directory.
fn run(place: &Place, envelope: &str, arguments: &[&str], code: i32) -> String {
    let all = [&["run", envelope, "--reps", "1", "--json"], arguments].concat();
    let outcome = place.run(&all).expect(code).json();
    outcome["dir"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_of_which_an_arm_failed_is_compared_with_nothing() {
    let place = Place::new();
    let crowded = SMOKE.replace("kv_pages = 4096", "kv_pages = 3");
    let crowded = crowded.replace("# arm_turns = { naive = 2 }", "arm_turns = { naive = 1 }");
    fs::write(place.work().join("crowded.toml"), crowded).unwrap();
    let failed = run(&place, "crowded.toml", &[], 5);
    let whole = run(&place, "crowded.toml", &["--arm", "naive"], 0);
    for [first, second] in [[&failed, &failed], [&whole, &failed], [&failed, &whole]] {
        place
            .run(&["compare", first, second])
            .expect(5)
            .complains(&["agent-kv failed in 1 of 1", "kv_pages"]);
    }
}

#[test]
fn what_only_other_arms_were_asked_makes_no_runs_unlike() {
    let place = Place::new();
    let turns = SMOKE.replace("# arm_turns = { naive = 2 }", "arm_turns = { naive = 2 }");
    let scripted = turns.replace("\"instance-shared\", \"fused\"", "\"fused\", \"mock\"")
        + "\n[mock]\nstep_ns = 30000\nprefill_ns_per_token = 0\ndecode_ns_per_token = 0\njitter_thousandths = 0\n";
    fs::write(place.work().join("first.toml"), scripted).unwrap();
    let other_words = turns.replace("question = \"Do all", "question = \"Will all");
    assert_ne!(turns, other_words);
    fs::write(place.work().join("second.toml"), other_words).unwrap();
    let all = run(&place, "first.toml", &[], 0);
    let fused = run(&place, "second.toml", &["--arm", "fused"], 0);
    let compared = place.run(&["compare", &all, &fused]).expect(3).stdout();
    assert!(
        compared.contains("Same work, same answers: 10 rows"),
        "{compared}"
    );
    // Of arms that both asked it counts.
    let longer = turns.replace("{ naive = 2 }", "{ naive = 3 }");
    fs::write(place.work().join("longer.toml"), longer).unwrap();
    let longer = run(&place, "longer.toml", &["--arm", "naive"], 0);
    let refused = place.run(&["compare", &all, &longer]).expect(3).stdout();
    assert!(
        refused.contains("envelope.run.arm_turns.naive"),
        "{refused}"
    );
}

#[test]
fn runs_whose_own_arms_disagree_or_that_have_none_in_common_are_not_called_equal() {
    let place = Place::new();
    let parted = forge::disagreement(&place);
    let parted = parted.to_str().unwrap();
    let compared = place.run(&["compare", parted, parted]).expect(1).stdout();
    for words in [
        "NO IDENTITY: the arms of the first run answered differently",
        "NO IDENTITY: the arms of the second run answered differently",
        "fused repetition 0 departs at agent 2 turn 3, in the logits",
    ] {
        assert!(compared.contains(words), "no {words:?} in:\n{compared}");
    }
    assert!(!compared.contains("Same work, same answers"), "{compared}");
    let [naive, fused] = ["naive", "fused"].map(|arm| run(&place, "smoke", &["--arm", arm], 0));
    let compared = place.run(&["compare", &naive, &fused]).expect(3).stdout();
    assert!(
        compared.contains("no arm was asked in both runs"),
        "{compared}"
    );
    assert!(!compared.contains("all equal"), "{compared}");
}

#[test]
fn an_explanation_claims_no_comparison_that_was_not_made() {
    let place = Place::new();
    for (envelope, arguments, words) in [
        ("instrument", &[][..], "Only scripted arms answered"),
        (
            "smoke",
            &["--arm", "fused"],
            "Only one arm answered, and once",
        ),
    ] {
        let directory = run(&place, envelope, arguments, 0);
        let told = place.run(&["explain", &directory]).expect(0).stdout();
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }
    let twice = ["run", "smoke", "--arm", "fused", "--reps", "2", "--json"];
    let twice = place.run(&twice).expect(0).json();
    let told = place.run(&["explain", twice["dir"].as_str().unwrap()]);
    let told = told.expect(0).stdout();
    assert!(told.contains("its repetitions gave the same"), "{told}");
}
