//! Runs of engine work as a whole: beside another program that is played by a script, and by scripts that fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Place, read_json};

pub(super) const ENVELOPE: &str = r#"
schema = "fak.envelope/1"
name = "work"
question = "How fast is nothing much?"
model = "synthetic-tiny"
[workload]
kind = "engine"
limit_s = 1
[[workload.cells]]
name = "prompt-70"
prompt = 70
[[workload.cells]]
name = "2x9-at-100"
prompt = 9
depth = 100
agents = 2
shared = 80
[[workload.cells]]
name = "decode-4"
decode = 4
[[workload.cells]]
name = "3-agents"
decode = 4
depth = 66
agents = 3
shared = 66
[run]
arms = ["fak", "fak-unshared", "llama-bench:fa0", "llama-bench:fa1"]
reps = 3
threads = 2
"#;

/// Plays both programs: says its version, or answers what it was asked in a time that depends on `-fa`.
const FAITHFUL: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "version: played" >&2; exit 0; fi
while [ $# -gt 0 ]; do
  case $1 in -p) p=$2;; -n) n=$2;; -d) d=$2;; -npp) pp=$2;; -ntg) tg=$2;; -npl) pl=$2;; -fa) fa=$2;; esac
  shift
done
case $fa in 1 | on) t=100;; *) t=200;; esac
if [ -n "$pl" ]; then
  echo "{\"pp\": $pp, \"tg\": $tg, \"pl\": $pl, \"t_tg\": 0.000$t}"
else
  echo "[{\"n_prompt\": $p, \"n_gen\": $n, \"n_depth\": $d, \"samples_ns\": [${t}000]}]"
fi
"#;

/// A place with the envelope, and what plays the programs.
struct Stage {
    place: Place,
    program: PathBuf,
}

impl Stage {
    fn new(script: &str) -> Self {
        let place = Place::new();
        fs::write(place.work().join("work.toml"), ENVELOPE).unwrap();
        let text = place.work().join("script");
        fs::write(&text, script).unwrap();
        let program = place.work().join("llama-bench");
        for path in [&program, &program.with_file_name("llama-batched-bench")] {
            // Not written by this process: a fork of another test could hold a file open that is to be executed.
            let mut install = Command::new("install");
            install.args(["-m", "755"]).arg(&text).arg(path);
            assert!(install.status().unwrap().success());
        }
        Self { place, program }
    }

    /// The outcome of a run with this exit code.
    fn outcome(&self, more: &[&str], code: i32) -> Value {
        let mut arguments = vec!["run", "work.toml", "--json"];
        arguments.extend(more);
        let mut command = self.place.command(&arguments);
        let output = command.env_remove("FAK_LLAMA_BENCH").output().unwrap();
        super::Finished { output }.expect(code).json()
    }

    fn bin(&self) -> String {
        format!("llama-bench={}", self.program.display())
    }
}

fn cell<'a>(outcome: &'a Value, name: &str) -> &'a Value {
    let cells = outcome["cells"].as_array().unwrap();
    cells.iter().find(|cell| cell["name"] == name).unwrap()
}

#[test]
fn engine_work_beside_another_program_is_sealed_audited_and_anchored() {
    let stage = Stage::new(FAITHFUL);
    let outcome = stage.outcome(&["--bin", &stage.bin()], 0);
    assert_eq!(
        (&outcome["complete"], &outcome["identity"]["equal"]),
        (&true.into(), &true.into())
    );
    assert_eq!(outcome["identity"]["requests"], 1 + 4 + 1 + 3);
    for (name, tokens, theirs) in [
        ("prompt-70", 70, 70),
        ("2x9-at-100", 18, 9), // one prompt at a time
        ("decode-4", 4, 4),
        ("3-agents", 12, 12),
    ] {
        let cell = cell(&outcome, name);
        assert_eq!(
            cell["arms"]["fak"]["samples"][2]["tokens"], tokens,
            "{name}"
        );
        let played = &cell["arms"]["llama-bench:fa1"];
        assert_eq!(
            (
                &played["samples"][0]["tokens"],
                &played["samples"][0]["timed_ns"]
            ),
            (&theirs.into(), &100_000.into())
        );
        assert_eq!(played["provenance"], "OBSERVED");
        assert_eq!(played["note"].is_null(), name != "2x9-at-100");
        // The faster of its two ways to attend is the denominator; our own other way is the second row.
        let denominators: Vec<&Value> = (0..2)
            .map(|row| &cell["ratios"][row]["denominator"])
            .collect();
        assert_eq!(denominators, ["llama-bench:fa1", "fak-unshared"]);
        assert_eq!(cell["ratios"][0]["pairs"], 3);
        assert!(cell["arms"]["fak"]["needs"]["bytes"].as_u64().unwrap() > 0);
        assert!(
            cell["arms"]["fak"]["needs"]["withheld"]
                .as_str()
                .unwrap()
                .contains("ceilings")
        );
    }
    let directory = outcome["dir"].as_str().unwrap();
    let trace = Path::new(directory).join("trace/3-agents.llama-bench.fa1-0.jsonl");
    let begin = fs::read_to_string(trace).unwrap();
    let begin: Value = serde_json::from_str(begin.lines().next().unwrap()).unwrap();
    assert_eq!(begin["program"]["version"], "version: played");
    assert!(
        begin["program"]["arguments"]
            .as_array()
            .unwrap()
            .contains(&"-pps".into())
    );
    let record = read_json(&Path::new(directory).join("run.json"));
    assert_eq!(
        record["order"][5], "prompt-70.llama-bench.fa0-1",
        "odd repetitions run backwards"
    );
    stage.place.run(&["audit", directory]).expect(0);
    stage.place.run(&["anchor", directory]).expect(0);
    stage.place.run(&["audit", "--all"]).expect(0);
}

#[test]
fn the_closing_table_has_both_speeds_and_the_next_run_says_how_long_it_takes() {
    let stage = Stage::new(FAITHFUL);
    let arguments = ["run", "work.toml", "--reps", "1", "--bin", &stage.bin()];
    let first = stage.place.run(&arguments).expect(0);
    for words in [
        "theirs",
        "ratio",
        "of limit",
        "llama-bench:fa1",
        "bit-equal",
        "one prompt at a time",
        "no ceilings",
    ] {
        assert!(
            first.stdout().contains(words),
            "no {words:?} in:\n{}",
            first.stdout()
        );
    }
    first.complains(&["first run here"]);
    stage
        .place
        .run(&arguments)
        .expect(0)
        .complains(&["as in results/local/work/"]);
}

#[test]
fn a_missing_program_is_a_failed_record_and_no_ratio_is_over_it() {
    let stage = Stage::new(FAITHFUL);
    let outcome = stage.outcome(&[], 5);
    assert_eq!(outcome["complete"], false);
    for (name, message) in [
        (
            "decode-4",
            "no llama-bench; give --bin llama-bench=PATH or FAK_LLAMA_BENCH",
        ),
        (
            "3-agents",
            "no llama-batched-bench; give --bin llama-batched-bench=PATH",
        ),
    ] {
        let cell = cell(&outcome, name);
        let said = cell["arms"]["llama-bench:fa0"]["error"].as_str().unwrap();
        assert!(said.starts_with(message), "{said}");
        assert_eq!(cell["ratios"].as_array().unwrap().len(), 1);
        assert_eq!(cell["ratios"][0]["denominator"], "fak-unshared");
    }
    let directory = outcome["dir"].as_str().unwrap();
    stage.place.run(&["audit", directory]).expect(0);
    stage
        .place
        .run(&["anchor", directory])
        .expect(2)
        .complains(&["3-agents", "no llama-bench"]);
    // Left out by name it is not missed; given by the environment it is found, and its companion beside it.
    stage.outcome(&["--arm", "fak", "--reps", "1"], 0);
    let mut command = stage.place.command(&["run", "work.toml", "--reps", "1"]);
    let output = command
        .env("FAK_LLAMA_BENCH", &stage.program)
        .output()
        .unwrap();
    super::Finished { output }.expect(0);
}

#[test]
fn a_program_that_babbles_fails_or_hangs_is_a_failed_record() {
    let lies = FAITHFUL
        .replace("n_prompt\\\": $p", "n_prompt\\\": 1$p")
        .replace("pl\\\": $pl", "pl\\\": 1$pl");
    for (script, words) in [
        ("#!/bin/sh\necho hello\n", "did not answer what was asked"),
        ("#!/bin/sh\necho '[]'\n", "did not answer what was asked"),
        (lies.as_str(), "asked was"),
        (
            "#!/bin/sh\necho 'out of memory' >&2\nexit 1\n",
            "out of memory",
        ),
        (
            "#!/bin/sh\n[ \"$1\" = --version ] || exec sleep 60\n",
            "workload.limit_s = 1",
        ),
    ] {
        let stage = Stage::new(script);
        let arms = ["--arm", "fak", "--arm", "llama-bench:fa0", "--reps", "1"];
        let outcome = stage.outcome(&[&arms[..], &["--bin", &stage.bin()]].concat(), 5);
        for cell in outcome["cells"].as_array().unwrap() {
            let said = cell["arms"]["llama-bench:fa0"]["error"].as_str().unwrap();
            assert!(said.contains(words), "{script}: {said}");
            assert!(cell["arms"]["llama-bench:fa0"]["tokens_per_s"].is_null());
            assert!(cell["ratios"].as_array().unwrap().is_empty());
        }
        stage
            .place
            .run(&["audit", outcome["dir"].as_str().unwrap()])
            .expect(0);
    }
}

#[test]
fn a_program_does_not_outlive_the_run_that_started_it() {
    let endless =
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho $$ > \"$0.pid\"\nexec sleep 600\n";
    let stage = Stage::new(endless);
    let patient = ENVELOPE.replace("limit_s = 1", "limit_s = 600");
    fs::write(stage.place.work().join("work.toml"), patient).unwrap();
    let arms = ["--arm", "fak", "--arm", "llama-bench:fa0", "--reps", "1"];
    let bin = stage.bin();
    let arguments = [&["run", "work.toml", "--bin", &bin][..], &arms].concat();
    let mut command = stage.place.command(&arguments);
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = silent.spawn().unwrap();
    let started = stage.place.work().join("llama-bench.pid");
    let id = until(|| {
        let text = fs::read_to_string(&started).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let alive = format!("kill -0 {id} 2>/dev/null");
    until(|| {
        let status = Command::new("sh").args(["-c", &alive]).status().unwrap();
        (!status.success()).then_some(())
    });
}

/// What `found` finds, asked again and again for a minute.
fn until<T>(found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(it) = found() {
            return it;
        }
        assert!(Instant::now() < deadline, "a minute went by");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn engine_work_that_cannot_be_asked_is_refused_with_what_to_type() {
    let stage = Stage::new(FAITHFUL);
    for (from, to, words) in [
        (
            "decode = 4\n[[",
            "decode = 4\nprompt = 1\n[[",
            "either prompt or decode",
        ),
        ("shared = 80", "shared = 101", "at most depth"),
        (
            "name = \"decode-4\"",
            "name = \"3-agents\"",
            "a name of its own",
        ),
        ("agents = 3", "agents = 0", "1 to 1024"),
        ("\"fak\", ", "", "fak among them"),
        (
            "\"llama-bench:fa0\"",
            "\"fused\"",
            "names out of fak, fak-unshared",
        ),
        ("limit_s = 1", "limit_s = 0", "workload.limit_s"),
    ] {
        assert!(ENVELOPE.contains(from), "{from}");
        fs::write(
            stage.place.work().join("bad.toml"),
            ENVELOPE.replacen(from, to, 1),
        )
        .unwrap();
        stage
            .place
            .run(&["run", "bad.toml"])
            .expect(2)
            .complains(&["bad.toml", words]);
    }
    let session = ["run", "smoke", "--bin", &stage.bin()];
    stage
        .place
        .run(&session)
        .expect(2)
        .complains(&["kind engine"]);
    let absent = ["run", "work.toml", "--bin", "llama-bench=absent"];
    stage
        .place
        .run(&absent)
        .expect(2)
        .complains(&["no file", "absent"]);
    let unknown = ["run", "work.toml", "--bin", "ollama=x"];
    stage
        .place
        .run(&unknown)
        .expect(2)
        .complains(&["llama-bench=PATH"]);
    assert!(
        !stage.place.work().join("results").exists(),
        "a refused command leaves nothing behind"
    );
}
