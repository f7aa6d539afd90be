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
