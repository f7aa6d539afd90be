//! Lies about how arms ran, and about engine work.
//!
//! Not here: how a lie is told consistently (`tell`).

use audit::Layer::{Clock, Prompt, Record, Settings};
use serde_json::json;

use super::{BEGIN, FUSED, Forgery, of_cells, told};
use crate::fixture::{LADDER, sha256};
use crate::tell::{everywhere, trace};

pub(crate) static SETTINGS: &[Forgery] = &[
    told(
        "one arm with more pages",
        Settings,
        (FUSED, BEGIN),
        "settings.kv_pages",
        |it| {
            everywhere(it, "begin", 0, |line| {
                line["settings"]["kv_pages"] = json!(128);
            });
        },
    ),
    told(
        "one arm with more threads",
        Settings,
        (FUSED, BEGIN),
        "settings is",
        |it| {
            everywhere(it, "begin", 0, |line| {
                line["settings"]["threads"] = json!(4);
            });
        },
    ),
    told(
        "all arms with other threads than asked",
        Settings,
        ("trace/agent-kv-0.jsonl", BEGIN),
        "settings.threads is 4",
        |it| {
            for arm in LADDER {
                for rep in 0..5 {
                    it.lines(&format!("{arm}-{rep}"), "begin")[0]["settings"]["threads"] = json!(4);
                }
            }
            it.set("/effective/threads", json!(4));
        },
    ),
    told(
        "one arm in another mode",
        Settings,
        (FUSED, BEGIN),
        "settings.mode",
        |it| {
            everywhere(it, "begin", 0, |line| {
                line["settings"]["mode"] = json!("fast");
            });
        },
    ),
    told(
        "a cache kept in fewer bits",
        Settings,
        ("trace/agent-kv-0.jsonl", BEGIN),
        "settings.kv_dtype",
        |it| {
            for lines in it.traces.values_mut() {
                lines[0]["settings"]["kv_dtype"] = json!("f16");
            }
            it.set("/effective/kv_dtype", json!("f16"));
        },
    ),
    told(
        "kernels the machine cannot run",
        Settings,
        ("trace/agent-kv-0.jsonl", BEGIN),
        "the machine of run.json",
        |it| {
            for lines in it.traces.values_mut() {
                lines[0]["settings"]["kernels"] = json!("avx512");
            }
            it.set("/effective/kernels", json!("avx512"));
        },
    ),
    told(
        "kernels that were not obeyed",
        Settings,
        ("run.json", ""),
        "requested kernels",
        |it| {
            it.envelope["run"]["kernels"] = json!("avx2");
            it.set("/requested/kernels", json!("avx2"));
            it.redeclare();
        },
    ),
    told(
        "a policy that is not the arm's",
        Settings,
        ("trace/naive-0.jsonl", BEGIN),
        "settings.cache",
        |it| {
            trace(it, "naive-0")[0]["settings"]["cache"] = json!("shared");
        },
    ),
    told(
        "the digest of another model in one arm",
        Settings,
        (FUSED, BEGIN),
        "model_sha256",
        |it| {
            everywhere(it, "begin", 0, |line| {
                line["model_sha256"] = json!(sha256("other"));
            });
        },
    ),
    told(
        "pages shared where nothing is",
        Settings,
        ("trace/agent-kv-2.jsonl", BEGIN),
        "nothing is shared with this cache",
        |it| {
            trace(it, "agent-kv-2")[0]["settings"]["shared_attention"] = json!(true);
        },
    ),
    told(
        "pages shared in some repetitions",
        Settings,
        ("trace/fused-3.jsonl", BEGIN),
        "settings is",
        |it| {
            trace(it, "fused-3")[0]["settings"]["shared_attention"] = json!(false);
        },
    ),
    told(
        "samples drawn, not greedy",
        Settings,
        (FUSED, BEGIN),
        "settings.greedy",
        |it| {
            everywhere(it, "begin", 0, |line| {
                line["settings"]["greedy"] = json!(false);
            });
        },
    ),
    of_cells(
        "a program that ignored its threads",
        Settings,
        ("trace/prompt.llama-bench.fa1-0.jsonl", "n_threads"),
        "the program says n_threads",
        |it| {
            let output = &mut it.lines("prompt.llama-bench.fa1-0", "external")[0]["output"];
            *output = json!(
                output
                    .as_str()
                    .unwrap()
                    .replace("\"n_gen\"", "\"n_threads\": 8, \"n_gen\"")
            );
        },
    ),
];

pub(crate) static ENGINE_WORK: &[Forgery] = &[
    of_cells(
        "a rate",
        Record,
        ("run.json", "400000.0"),
        "tokens_per_s",
        |it| {
            it.set("/cells/0/arms/fak/tokens_per_s", json!(400_000.0));
        },
    ),
    of_cells(
        "a weaker opponent",
        Record,
        ("run.json", "\"denominator\": \"llama-bench:fa0\""),
        "ratios[0].denominator",
        |it| {
            it.set("/cells/0/ratios/0/denominator", json!("llama-bench:fa0"));
        },
    ),
    of_cells(
        "a machine that could do more",
        Record,
        ("run.json", "\"limit_ns\": 496"),
        "limit_ns",
        |it| {
            it.set("/machine/ceilings/f32_flop_per_s/2", json!(500_000_000));
        },
    ),
    of_cells(
        "a program asked for fewer threads",
        Prompt,
        ("trace/prompt.llama-bench.fa1-0.jsonl", "begin_external"),
        "program.arguments",
        |it| {
            it.lines("prompt.llama-bench.fa1-0", "begin_external")[0]["program"]["arguments"][3] =
                json!("1");
        },
    ),
    of_cells(
        "a program that outlasts its trace",
        Clock,
        (
            "trace/prompt.llama-bench.fa1-0.jsonl",
            "\"kind\":\"external\"",
        ),
        "its clock leaves",
        |it| {
            it.lines("prompt.llama-bench.fa1-0", "external")[0]["wall_ns"] = json!(1_000_002);
        },
    ),
    of_cells(
        "a cell left out",
        Record,
        ("run.json", "\"cells\""),
        "the number of cells",
        |it| {
            it.record["cells"].as_array_mut().unwrap().pop();
        },
    ),
];
