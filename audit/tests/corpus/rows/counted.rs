//! Lies about what was counted and not run.
//!
//! Not here: runs of arms.

use std::fs;

use audit::Layer;
use serde_json::json;

use super::{Catcher, Forgery, Made, ZEROS, declared, recorded, row, told, written};
use crate::fixture::{Fixture, counted, seal};

const fn of(honest: fn() -> Fixture, forgery: Forgery) -> Forgery {
    Forgery { honest, ..forgery }
}

pub(crate) static ASKED: &[Forgery] = &[
    of(
        counted::sessions,
        declared(
            "sessions and streams counted in one",
            "workload counts one of dataset, sessions, streams and routing",
            ("/workload/streams", r#"[{"name": "chat"}]"#),
        ),
    ),
    of(
        counted::sessions,
        declared(
            "workers of no data set",
            "go with a dataset",
            ("/workload/workers", "[1]"),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "a data set of a kind nobody reads",
            "workload.dataset.kind is",
            ("/workload/dataset/kind", r#""mystery""#),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "a data set somewhere on a disk",
            "workload.dataset.file is",
            ("/workload/dataset/file", r#""../set.json""#),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "a data set that nothing tells from others",
            "workload.dataset.sha256 is no digest",
            ("/workload/dataset/sha256", r#""latest""#),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "numbers of workers out of order",
            "workload.workers is [2, 1]",
            ("/workload/workers", "[2, 1]"),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "a data set without tasks",
            "workload.tasks is empty",
            ("/workload/tasks", "[]"),
        ),
    ),
    of(
        counted::tasks,
        declared(
            "tasks of no turns",
            "cannot be asked",
            ("/workload/tasks/0/turns", "0"),
        ),
    ),
    of(
        counted::sessions,
        declared(
            "no sessions to count",
            "workload.sessions has 0 entries",
            ("/workload/sessions", "[]"),
        ),
    ),
    of(
        counted::sessions,
        declared(
            "two sessions of one name",
            "\"three\" is used twice",
            ("/workload/sessions/1/name", r#""three""#),
        ),
    ),
    of(
        counted::sessions,
        declared(
            "a session of nobody",
            "cannot be asked",
            ("/workload/sessions/0/agents", "0"),
        ),
    ),
    of(
        counted::sessions,
        declared(
            "a session beyond counting",
            "more tokens than 64 bits count",
            ("/workload/sessions/0/turns", "18446744073709551615"),
        ),
    ),
    of(
        counted::streams,
        declared(
            "a stream nobody knows",
            "nobody knows it",
            ("/workload/streams/0/name", r#""torrent""#),
        ),
    ),
    of(
        counted::streams,
        declared(
            "a cache of nothing for a stream",
            "has no cache that can be",
            ("/workload/streams/1/capacity_tokens", "0"),
        ),
    ),
    of(
        counted::fleet,
        declared(
            "families nobody asks for",
            "cannot be counted",
            ("/workload/routing/hot_weight", "27"),
        ),
    ),
    of(
        counted::tasks,
        told(
            "other workers than were asked",
            Layer::Declared,
            ("envelope.toml", "workers ="),
            "workload.workers is [1,3] here",
            |fixture| fixture.written = fixture.written.replace("[1, 2]", "[1, 3]"),
        ),
    ),
    of(
        counted::tasks,
        told(
            "tasks written by hand beside a data set",
            Layer::Declared,
            ("envelope.toml", "tasks ="),
            "workload.tasks is [] here",
            |fixture| fixture.written += "tasks = []\n",
        ),
    ),
];

pub(crate) static RECORDED: &[Forgery] = &[
    of(
        counted::sessions,
        recorded(
            "a token fewer computed",
            "\"prefill_tokens_computed\": 16",
            "rows[0].arms.fused.prefill_tokens_computed is 16, the envelope gives 17",
            ("/rows/0/arms/fused/prefill_tokens_computed", "16"),
        ),
    ),
    of(
        counted::sessions,
        recorded(
            "hits that are not what is left",
            "\"prefix_tokens_hit\": 44",
            "rows[0].arms.fused.prefix_tokens_hit is 44, the envelope gives 43",
            ("/rows/0/arms/fused/prefix_tokens_hit", "44"),
        ),
    ),
    of(
        counted::tasks,
        recorded(
            "a sum over tasks with one left out",
            "\"prefill_tokens_computed\": 31",
            "rows[1].arms.fused.prefill_tokens_computed is 31, the envelope gives 48",
            ("/rows/1/arms/fused/prefill_tokens_computed", "31"),
        ),
    ),
    of(
        counted::streams,
        recorded(
            "an eviction kept quiet",
            "\"evictions\": 28",
            "rows[1].cache.evictions is 28, the envelope gives 29",
            ("/rows/1/cache/evictions", "28"),
        ),
    ),
    of(
        counted::streams,
        recorded(
            "an order that nobody waits in",
            "\"overtaken_most\": 1",
            "rows[2].cache.overtaken_most is 1, the envelope gives 8",
            ("/rows/2/cache/overtaken_most", "1"),
        ),
    ),
    of(
        counted::streams,
        recorded(
            "a hit rate rounded up",
            "\"hit_rate_millionths\": 621384",
            "hit_rate_millionths is 621384",
            ("/rows/1/cache/hit_rate_millionths", "621384"),
        ),
    ),
    of(
        counted::fleet,
        recorded(
            "a hit more than there was",
            "\"hits\": 396",
            "rows[2].routed.hits is 396, the envelope gives 395",
            ("/rows/2/routed/hits", "396"),
        ),
    ),
    of(
        counted::fleet,
        recorded(
            "a fleet that is made up passed off as counted work",
            "MODELED",
            "provenance is \"MODELED\", the envelope gives \"SIMULATED\"",
            ("/provenance", r#""MODELED""#),
        ),
    ),
    of(
        counted::sessions,
        recorded(
            "a session that was routed",
            "{",
            "rows[0] has",
            (
                "/rows/0/routed",
                r#"{"requests": 6, "hits": 6, "evictions": 0, "hit_rate_millionths": 1000000}"#,
            ),
        ),
    ),
    of(
        counted::sessions,
        recorded(
            "a count passed off as a run",
            "WITNESSED",
            "provenance is \"WITNESSED\", the envelope gives \"MODELED\"",
            ("/provenance", r#""WITNESSED""#),
        ),
    ),
    of(
        counted::sessions,
        recorded(
            "counts of another envelope",
            "envelope_sha256",
            "envelope_sha256 is",
            ("/envelope_sha256", ZEROS),
        ),
    ),
    of(
        counted::sessions,
        told(
            "a row left out",
            Layer::Record,
            ("run.json", "\"rows\""),
            "the number of rows is 1, expected 2",
            |fixture| {
                fixture.record["rows"].as_array_mut().unwrap().pop();
            },
        ),
    ),
    of(
        counted::sessions,
        told(
            "an arm that is better left out",
            Layer::Record,
            ("run.json", "\"arms\""),
            "rows[0].arms has",
            |fixture| {
                let arms = fixture.record["rows"][0]["arms"].as_object_mut();
                arms.unwrap().remove("agent-kv");
            },
        ),
    ),
    of(
        counted::streams,
        told(
            "a cache for each conversation in little room",
            Layer::Record,
            ("run.json", "\"arms\""),
            "rows[1].arms has",
            |fixture| {
                let mut kept = fixture.record["rows"][1]["arms"]["naive"].clone();
                kept["held_tokens_peak"] = json!(408);
                fixture.record["rows"][1]["arms"]["agent-kv"] = kept;
            },
        ),
    ),
    of(
        counted::sessions,
        Forgery {
            line: "\"schema\"",
            ..row(
                "a count with the record of a run",
                Catcher::Layer(Layer::Format),
                ("run.json", ""),
                "schema is \"fak.run/1\", expected \"fak.counts/1\"",
                Made::Recorded(("/schema", r#""fak.run/1""#)),
            )
        },
    ),
    of(
        counted::sessions,
        written(
            "a trace of what never ran",
            Layer::Seal,
            ("trace/fused-0.jsonl", ""),
            "does not belong to this run",
            |dir| {
                fs::write(dir.join("trace/fused-0.jsonl"), "{}\n").unwrap();
                seal(dir);
            },
        ),
    ),
];
