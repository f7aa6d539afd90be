//! Ceilings of the machine in run.json: optional, asserted, and refused where no machine could have them.
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Report, audit_run};
use fixture::Fixture;
use serde_json::{Value, json};

fn audited(ceilings: Value) -> Report {
    let mut fixture = Fixture::new(&["fused"], 1);
    fixture.record["machine"]["ceilings"] = ceilings;
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

fn ceilings(rates: &Value) -> Value {
    json!({ "read_bytes_per_s": rates, "f32_flop_per_s": rates, "int8_op_per_s": rates })
}

#[test]
fn ceilings_pass_as_asserted_whatever_they_claim() {
    let without = {
        let dir = tempfile::tempdir().unwrap();
        Fixture::new(&["fused"], 1).write(dir.path());
        audit_run(dir.path())
    };
    let with = audited(ceilings(&json!({ "1": 5, "2": u64::MAX })));
    assert_eq!(with.exit_code(), 0, "{}", with.render());
    let name = "figures of run.json";
    assert_eq!(with.asserted[name], without.asserted[name] + 6);
    assert_eq!(with.recomputed[name], without.recomputed[name]);
}

#[test]
fn ceilings_no_machine_could_have_are_refused() {
    let mut uneven = ceilings(&json!({ "1": 5, "2": 9 }));
    uneven["int8_op_per_s"] = json!({ "1": 5 });
    let mut without = ceilings(&json!({ "1": 5 }));
    without.as_object_mut().unwrap().remove("f32_flop_per_s");
    let mut more = ceilings(&json!({ "1": 5 }));
    more["int4_op_per_s"] = json!({ "1": 5 });
    for (ceilings, word) in [
        (ceilings(&json!({})), "or not \"1\""),
        (ceilings(&json!({ "2": 5 })), "no numbers of threads"),
        (
            ceilings(&json!({ "1": 5, "02": 5 })),
            "no numbers of threads",
        ),
        (
            ceilings(&json!({ "1": 5, "0": 5 })),
            "no numbers of threads",
        ),
        (
            ceilings(&json!({ "1": 5, "all": 5 })),
            "no numbers of threads",
        ),
        (ceilings(&json!({ "1": 0 })), "a rate of 0"),
        (ceilings(&json!({ "1": -5 })), "FORMAT.md"),
        (ceilings(&json!({ "1": 5.5 })), "FORMAT.md"),
        (ceilings(&json!({ "1": null })), "FORMAT.md"),
        (Value::Null, "FORMAT.md"),
        (uneven, "keys of machine.ceilings.int8_op_per_s"),
        (without, "missing field"),
        (more, "unknown field"),
    ] {
        let report = audited(ceilings);
        assert_eq!(report.exit_code(), 4, "{word}: {}", report.render());
        assert!(
            report.render().contains(word),
            "{word}: {}",
            report.render()
        );
    }
}
