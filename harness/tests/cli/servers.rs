//! Runs beside another engine as a whole: a server that is played by a script, faithful or not, on a model of five tokens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use workloads::trace::{Body, Line};

use super::models::tiny_gguf;
use super::{Finished, Place, read_json};

const ENVELOPE: &str = r#"
schema = "fak.envelope/1"
name = "beside"
question = "Does another engine answer as ours does?"
model = "own"
[workload]
kind = "session"
agents = 2
turns = 3
prefix = 70
decode = 4
result = 6
[run]
arms = ["llama-server:shared", "agent-kv", "instance-shared", "fused", "llama-server:agent"]
reps = 2
threads = 2
request_limit_s = 5
"#;

/// A place with the envelope, its model, what plays the server, and what our engine answers.
pub(super) struct Stage {
    place: Place,
    server: PathBuf,
    answers: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Self {
        let place = Place::new();
        let work = place.work();
        fs::write(work.join("beside.toml"), ENVELOPE).unwrap();
        let own = place.cache().join("models/own");
        fs::create_dir_all(&own).unwrap();
        let model = tiny_gguf();
        let sha256 = workloads::trace::sha256_hex(&model);
        fs::write(own.join("model.gguf"), model).unwrap();
        let listing = "name = \"own\"\nsource = \"this test\"\nlabel = \"real\"\n";
        fs::write(
            own.join("model.toml"),
            format!("{listing}sha256 = {sha256:?}\n"),
        )
        .unwrap();
        let (text, server) = (work.join("script"), work.join("bin/llama-server"));
        fs::write(&text, include_str!("../fake/llama_server.py")).unwrap();
        // Not written by this process: a fork of another test could hold a file open that is to be executed.
        let mut install = Command::new("install");
        install.args(["-D", "-m", "755"]).arg(&text).arg(&server);
        assert!(install.status().unwrap().success());
        let answers = work.join("answers.json");
        let stage = Self {
            place,
            server,
            answers,
        };
        stage.learn();
        stage
    }

    /// What plays the server.
    pub(super) fn server(&self) -> &Path {
        &self.server
    }

    /// What it knows.
    pub(super) fn answers(&self) -> &Path {
        &self.answers
    }

    /// The model's file.
    pub(super) fn model(&self) -> PathBuf {
        self.place.cache().join("models/own/model.gguf")
    }

    /// Writes the envelope with lines more in its workload, and with these arms.
    pub(super) fn declare(&self, lines: &str, arms: &str) {
        let asked = ENVELOPE.lines().find(|line| line.starts_with("arms"));
        let text = ENVELOPE
            .replacen("[run]\n", &format!("{lines}\n[run]\n"), 1)
            .replacen(asked.unwrap(), &format!("arms = {arms}"), 1);
        fs::write(self.place.work().join("beside.toml"), text).unwrap();
    }

    /// Asks our engine the envelope, and keeps its answers by prompt for the server to know.
    fn learn(&self) {
        let ours = [
            "run",
            "beside.toml",
            "--arm",
            "fused",
            "--reps",
            "1",
            "--json",
        ];
        let outcome = self.place.run(&ours).expect(0).json();
        let trace = Path::new(outcome["dir"].as_str().unwrap()).join("trace/fused-0.jsonl");
        let text = fs::read_to_string(trace).unwrap();
        let (mut prefix, mut transcripts, mut answers) =
            (Vec::new(), [Vec::new(), Vec::new()], json!({}));
        for line in text.lines() {
            match serde_json::from_str::<Line>(line).unwrap().body {
                Body::Text { ids, .. } => prefix = ids,
                Body::Request {
                    agent,
                    turn,
                    append,
                    ..
                } => {
                    if turn == 0 {
                        transcripts[agent].clone_from(&prefix);
                    }
                    transcripts[agent].extend(append);
                }
                Body::Finish { request, ids, .. } => {
                    let agent: usize = request[1..2].parse().unwrap();
                    let prompt: Vec<String> =
                        transcripts[agent].iter().map(u32::to_string).collect();
                    answers[prompt.join(",")] = json!(ids);
                    transcripts[agent].extend(ids);
                }
                _ => {}
            }
        }
        fs::write(&self.answers, answers.to_string()).unwrap();
    }

    /// Runs the harness where the server is on the search path and does `wrong`.
    pub(super) fn run(&self, arguments: &[&str], wrong: &str) -> Finished {
        let mut command = self.place.command(arguments);
        let bin = self.server.parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
        let scratch = self.place.root.path().join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        command
            .env("PATH", path.unwrap())
            .env("TMPDIR", scratch)
            .env("FAKE_ANSWERS", &self.answers)
            .env("FAKE_DOES", wrong)
            .env_remove("FAK_LLAMA_SERVER");
        Finished {
            output: command.output().unwrap(),
        }
    }

    /// A run of the envelope with this exit code, as JSON.
    fn outcome(&self, wrong: &str, code: i32) -> Value {
        let run = self.run(&["run", "beside.toml", "--json"], wrong);
        run.expect(code).json()
    }
}

pub(super) fn ratio<'a>(outcome: &'a Value, arm: &str, denominator: &str) -> &'a Value {
    let ratios = outcome["ratios"].as_array().unwrap();
    let wanted = |it: &&Value| it["arm"] == arm && it["denominator"] == denominator;
    ratios.iter().find(wanted).unwrap()
}

#[test]
fn a_faithful_server_is_played_scored_sealed_and_compared() {
    let stage = Stage::new();
    let outcome = stage.outcome("", 0);
    assert_eq!(
        (&outcome["complete"], &outcome["audit_exit_code"]),
        (&true.into(), &0.into())
    );
    let shared = &outcome["arms"]["llama-server:shared"];
    assert_eq!(shared["provenance"], "OBSERVED");
    // Twice the last position of the prefix, for its logits; and an answer's last token is never in a slot.
    assert_eq!(shared["prefill_tokens_computed"], 70 + 2 + 2 * 2 * 7);
    assert_eq!(shared["score"]["exact_share"], 1.0);
    assert_eq!(shared["score"]["tokens"], 2 * 2 * 3 * 4);
    assert_eq!(shared["server"]["settings"]["slots"], 2);
    assert_eq!(shared["server"]["program"]["version"], "version: played");
    for (arm, server) in [
        ("instance-shared", "llama-server:shared"),
        ("fused", "llama-server:shared"),
        ("agent-kv", "llama-server:agent"),
        ("fused", "llama-server:agent"),
    ] {
        assert!(ratio(&outcome, arm, server)["wall"].is_number());
    }
    let directory = Path::new(outcome["dir"].as_str().unwrap());
    let record = read_json(&directory.join("run.json"));
    assert_eq!(record["order"][0], "llama-server.shared-0");
    for name in ["llama-server.shared-1", "llama-server.shared-1.score"] {
        assert!(directory.join(format!("trace/{name}.jsonl")).is_file());
    }
    let scratch = stage.place.root.path().join("scratch");
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_closing_text_has_the_receipt_the_score_and_what_is_unlike() {
    let stage = Stage::new();
    let run = stage.run(&["run", "beside.toml", "--reps", "1"], "does not say");
    let run = run.expect(0);
    for words in [
        "other engine",
        "reported cached",
        "RSS peak",
        "version: played",
        "--port PORT",
        "threads 2, slots 2 of",
        "flash attention ?",
        "just been given, 64 tokens, it found 63",
        "another first id, 64 tokens, it found 0",
        "100.0000 % of 24 tokens",
        "over llama-server:shared, unlike ours: its cache holds f16, ours f32; it does not say: flash attention",
    ] {
        assert!(
            run.stdout().contains(words),
            "no {words:?} in:\n{}",
            run.stdout()
        );
    }
    assert!(!run.stdout().contains("NOT SCORED"));
}

#[test]
fn other_answers_than_ours_are_told_apart_by_their_margin_and_withhold_the_ratio() {
    let stage = Stage::new();
    fs::write(&stage.answers, "{}").unwrap();
    let outcome = stage.outcome("", 0);
    assert_eq!(outcome["complete"], true);
    let score = &outcome["arms"]["llama-server:agent"]["score"];
    assert!(score["beyond_margin"]["micronats"].as_u64().unwrap() > 100_000);
    let withheld = &ratio(&outcome, "fused", "llama-server:agent")["withheld"];
    assert!(
        withheld
            .as_str()
            .unwrap()
            .starts_with("outside the margin: llama-server:agent-0")
    );
    assert!(ratio(&outcome, "fused", "instance-shared")["wall"].is_number());
}

#[test]
fn a_server_that_fails_is_a_failed_record_and_the_other_arms_are_untouched() {
    for (wrong, reasons) in [
        ("kills who asks", &["before its trace was complete"][..]),
        ("dies at start", &["cannot load the model"]),
        ("dies midway", &["request a", "stopped by itself"]),
        ("hangs midway", &["request a", "request_limit_s"]),
        ("stops early", &["request a", "ignore_eos"]),
    ] {
        let stage = Stage::new();
        let run = stage.run(&["run", "beside.toml", "--reps", "1", "--json"], wrong);
        let outcome = run.expect(5).json();
        assert_eq!(outcome["audit_exit_code"], 0, "{wrong}");
        for server in ["llama-server:shared", "llama-server:agent"] {
            let arm = &outcome["arms"][server];
            let said = arm["error"].as_str().unwrap();
            for reason in reasons {
                assert!(said.contains(reason), "{wrong}: {said}");
            }
            assert_eq!(arm["score"], Value::Null);
        }
        assert_eq!(outcome["identity"]["arms"].as_array().unwrap().len(), 3);
        assert_eq!(outcome["ratios"].as_array().unwrap().len(), 2);
        assert!(ratio(&outcome, "fused", "instance-shared")["wall"].is_number());
    }
}

#[test]
fn another_build_midway_stops_the_run_before_more_of_it_is_lost() {
    let stage = Stage::new();
    let run = stage.run(
        &["run", "beside.toml", "--reps", "1", "--out", "out"],
        "changes",
    );
    let stopped = run.expect(5);
    stopped.complains(&["another build", "--resume", "nothing was sealed"]);
    let traces = fs::read_dir(stage.place.work().join("out/trace")).unwrap();
    let of_servers = traces.filter(|it| {
        let name = it.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("llama-server")
    });
    assert_eq!(of_servers.count(), 1, "the other build's trace is gone");
}

#[test]
fn those_who_read_runs_know_whose_answers_are_whose() {
    let stage = Stage::new();
    let arguments = ["run", "beside.toml", "--reps", "1", "--json"];
    let [first, second] = [0, 1].map(|_| {
        let outcome = stage.run(&arguments, "").expect(0).json();
        outcome["dir"].as_str().unwrap().to_owned()
    });
    let says = |finished: Finished, words: &[&str]| {
        for word in words {
            let (text, complaint) = (finished.stdout(), finished.stderr());
            assert!(
                text.contains(word) || complaint.contains(word),
                "no {word:?} in:\n{text}{complaint}"
            );
        }
    };
    let explained = stage.run(&["explain", &first], "").expect(0);
    says(
        explained,
        &[
            "The other engines",
            "llama-server:shared is unlike ours",
            "score  100",
        ],
    );
    let compared = stage.run(&["compare", &first, &second], "");
    assert_ne!(
        compared.output.status.code(),
        Some(1),
        "{}",
        compared.stdout()
    );
    says(
        compared,
        &["in time only: llama-server:agent; llama-server:shared"],
    );
    let replayed = stage
        .run(&["audit", &first, "--replay", "100%"], "")
        .expect(0);
    says(
        replayed,
        &[
            "REPRODUCED: 18 answers",
            "another engine answered: llama-server:agent, llama-server:shared",
        ],
    );
    let accepted = stage
        .run(&["gate", "beside.toml", "--accept"], "dies at start")
        .expect(0);
    says(
        accepted,
        &["another engine answers: llama-server:shared, llama-server:agent"],
    );
    stage
        .run(
            &["gate", "beside.toml", "--against", &first],
            "dies at start",
        )
        .expect(0);
    let anchored = stage.run(&["anchor", &first], "").expect(0);
    says(anchored, &["results/beside/"]);
    stage.run(&["audit", "--all"], "").expect(0);
    let known = stage.run(&arguments, "").expect(0);
    known.complains(&["as in results/"]);
}

#[test]
fn what_cannot_be_asked_of_another_engine_is_refused_before_anything_runs() {
    let stage = Stage::new();
    let before = fs::read_dir(stage.place.work().join("results/local/beside"))
        .unwrap()
        .count();
    let run = |more: &[&str]| {
        let arguments = [&["run", "beside.toml", "--reps", "1"], more].concat();
        stage.run(&arguments, "")
    };
    let synthetic = run(&["--model", "synthetic-tiny"]).expect(2);
    synthetic.complains(&["built from a seed", "--model smollm2-135m-q8_0"]);
    let alone = run(&["--arm", "llama-server:shared"]).expect(2);
    alone.complains(&["run.arms", "add fused"]);
    let absent = run(&["--bin", "llama-server=absent"]).expect(2);
    absent.complains(&["--bin llama-server: no file"]);
    let bench = run(&["--bin", "llama-bench=beside.toml"]).expect(2);
    bench.complains(&["is for envelopes of kind engine"]);
    let vain = run(&["--arm", "fused", "--bin", "llama-server=beside.toml"]).expect(2);
    vain.complains(&["no arm of this run is answered by it"]);
    let mut nowhere = stage.place.command(&["run", "beside.toml"]);
    let output = nowhere
        .env("PATH", "")
        .env_remove("FAK_LLAMA_SERVER")
        .output()
        .unwrap();
    let nowhere = Finished { output }.expect(5);
    nowhere.complains(&[
        "needs llama-server",
        "baseline doctor llama-server",
        "--arm NAME",
    ]);
    let after = fs::read_dir(stage.place.work().join("results/local/beside"))
        .unwrap()
        .count();
    assert_eq!(before, after, "a refused command leaves nothing behind");
}

#[test]
fn a_doctor_says_what_is_here_and_what_to_type() {
    let stage = Stage::new();
    let healthy = stage
        .run(&["baseline", "doctor", "llama-server", "--json"], "")
        .expect(0)
        .json();
    assert_eq!(
        (&healthy["usable"], &healthy["by"]),
        (&true.into(), &"the search path".into())
    );
    assert_eq!(healthy["version"], "version: played");
    assert_eq!(healthy["switches"].as_array().unwrap().len(), 8);
    let listed = stage
        .run(&["baseline", "list", "--json"], "")
        .expect(0)
        .json();
    assert_eq!(listed["baselines"][0]["path"], "bin/llama-server");
    assert_eq!(listed["baselines"][2]["run_here"], false);
    let mut command = stage.place.command(&["baseline", "doctor", "llama-server"]);
    let output = command
        .env("PATH", "")
        .env_remove("FAK_LLAMA_SERVER")
        .output()
        .unwrap();
    let missing = Finished { output }.expect(5);
    assert!(
        missing
            .stdout()
            .contains("pip install --no-deps xllamacpp=="),
        "{}",
        missing.stdout()
    );
    let script = format!(
        "llama-server={}",
        stage.place.work().join("script").display()
    );
    let broken = stage
        .run(
            &["baseline", "doctor", "llama-server", "--bin", &script],
            "",
        )
        .expect(5);
    assert!(broken.stdout().contains("does not say its version"));
    stage.run(&["baseline", "doctor", "vllm"], "").expect(5);
    let unknown = stage
        .run(&["baseline", "doctor", "lama-server"], "")
        .expect(2);
    unknown.complains(&["did you mean llama-server"]);
}
