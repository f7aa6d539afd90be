//! Lies about who was let in first.
//!
//! Not here: the honest run (`fixture::admitted`).

use audit::Layer::{Chain, Settings};
use serde_json::json;

use super::{BEGIN, FUSED, Forgery, declared, in_cells, told};
use crate::fixture::{self, admitted};

const ADMISSION: &str = "/run/admission";
const CACHE_AWARE: &str = r#"{"order": "cache-aware", "overtaken_max": 1}"#;

pub(crate) static ADMITTED: &[Forgery] = &[
    declared(
        "an order of admission nobody knows",
        "run.admission.order is",
        (ADMISSION, r#"{"order": "youngest", "overtaken_max": 1}"#),
    ),
    declared(
        "a bound on waiting beyond every session",
        "run.admission.overtaken_max is 1048577",
        (
            ADMISSION,
            r#"{"order": "cache-aware", "overtaken_max": 1048577}"#,
        ),
    ),
    Forgery {
        honest: fixture::quarantined::one_by_one,
        ..declared(
            "an order among agents that come one by one",
            "one by one nobody waits",
            (ADMISSION, CACHE_AWARE),
        )
    },
    Forgery {
        honest: fixture::scripted::beside_naive,
        ..declared(
            "an order of admission of an arm that follows a script",
            "for arms of our engine",
            (ADMISSION, CACHE_AWARE),
        )
    },
    Forgery {
        honest: fixture::served::run,
        ..declared(
            "an order of admission of another engine",
            "for arms of our engine",
            (ADMISSION, CACHE_AWARE),
        )
    },
    in_cells(declared(
        "an order of admission for cells",
        "run.admission is for sessions",
        (ADMISSION, CACHE_AWARE),
    )),
    Forgery {
        honest: admitted::run,
        ..told(
            "an order of admission that was declared and not kept to",
            Settings,
            ("trace/agent-kv-0.jsonl", BEGIN),
            "settings.admission is None",
            |it| {
                for lines in it.traces.values_mut() {
                    let settings = lines[0]["settings"].as_object_mut();
                    settings.unwrap().remove("admission");
                }
            },
        )
    },
    Forgery {
        honest: admitted::run,
        ..told(
            "a request overtaken more often than was declared",
            Chain,
            (FUSED, "\"own\":6,\"request\":\"a1-t1\""),
            "request \"a0-t1\" is overtaken 1 times, the envelope allows 0",
            |it| {
                let admission = json!({ "order": "cache-aware", "overtaken_max": 0 });
                it.envelope["run"]["admission"] = admission.clone();
                for lines in it.traces.values_mut() {
                    lines[0]["settings"]["admission"] = admission.clone();
                }
                it.redeclare();
            },
        )
    },
];
