//! `invariance`: every pair of levels agrees, hashes are the committed ones, and the report has what scripts read.

use super::Place;

#[test]
fn every_pair_agrees_with_the_pinned_hash_in_both_modes() {
    for model in [
        "synthetic-tiny",
        "synthetic-tiny-q8_0",
        "synthetic-tiny-q4_1",
    ] {
        let asked = ["invariance", "--pairs", "--model", model, "--json"];
        let found = Place::new().run(&asked).expect(0).json();
        assert_eq!(
            (&found["model"], &found["equal"]),
            (&model.into(), &true.into())
        );
        let modes = found["modes"].as_array().unwrap();
        let names: Vec<_> = modes
            .iter()
            .map(|mode| mode["mode"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["exact", "fast"]);
        assert_ne!(
            modes[0]["sha256"], modes[1]["sha256"],
            "f16 KV changes the bits"
        );
        for mode in modes {
            assert_eq!(mode["runs"], 24);
            assert_eq!(mode["agreeing"], 24);
            assert_eq!(mode["equals_pinned"], true);
            assert_eq!(mode["decode_equals_prefill"], true);
            for level in mode["levels"].as_array().unwrap() {
                assert!(level["runs"].as_u64().unwrap() > 0, "{level}");
                assert_eq!(level["runs"], level["agreeing"], "{level}");
            }
        }
    }
}

#[test]
fn keys_and_values_of_bytes_have_one_answer_of_their_own() {
    let asked = "invariance --pairs --model synthetic-tiny-q4_1 --mode fast --kv q8_0 --json";
    let asked: Vec<&str> = asked.split(' ').collect();
    let found = Place::new().run(&asked).expect(0).json();
    let mode = &found["modes"][0];
    assert_eq!(
        (&mode["mode"], &mode["kv_dtype"]),
        (&"fast".into(), &"q8_0".into())
    );
    // Its hash is another than that of f16, which is pinned beside it.
    assert_eq!(
        (&mode["agreeing"], &mode["equals_pinned"]),
        (&24.into(), &true.into())
    );
    let error = Place::new().run(&["invariance", "--kv", "q4_0"]).expect(2);
    error.complains(&["q4_0", "f32, f16, q8_0"]);
}

#[test]
fn the_table_names_factors_levels_hash_and_verdict() {
    let place = Place::new();
    let finished = place
        .run(&["invariance", "--pairs", "--mode", "exact"])
        .expect(0);
    let text = finished.stdout();
    for expected in [
        "factor   level",
        "all but one, 129",
        "KV written by decoding gives the logits of prefill",
        "equals the pinned hash",
        "EQUAL: 24 of 24 runs agree",
    ] {
        assert!(text.contains(expected), "no {expected:?} in:\n{text}");
    }
    assert!(!text.contains("fast"));
    finished.complains(&["24 runs, about"]);
    place
        .run(&["invariance", "--model", "synthetic-tine"])
        .expect(2)
        .complains(&["synthetic-tiny"]);
}
