//! What a run leaves behind when the world fails it: disk full, read-only, interrupted. Never anything that looks whole.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{Finished, Place};

/// Says that a test did not run, and where `./test.sh` counts it.
#[allow(clippy::print_stderr)] // a skip that nobody hears of is a lie
pub(super) fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(log) = std::env::var_os("FAK_SKIPS") else {
        return;
    };
    let mut log = fs::File::options()
        .append(true)
        .create(true)
        .open(log)
        .unwrap();
    writeln!(log, "{why}").unwrap();
}

/// A shell that runs the harness as `"$0"`.
fn shell(place: &Place, wrapper: &[&str], script: &str) -> Output {
    let harness = env!("CARGO_BIN_EXE_harness");
    let [program, arguments @ ..] = &[wrapper, &["sh", "-c", script, harness]].concat()[..] else {
        unreachable!()
    };
    Command::new(program)
        .args(arguments)
        .current_dir(place.work())
        .env("FAK_CACHE", place.cache())
        .output()
        .unwrap()
}

/// Either the run says it is whole and is, or it says it is not, and no auditor takes it.
fn holds(run: &Finished, audited: Option<i32>, what: &str) -> bool {
    let (said, text) = (run.output.status.code(), run.stderr());
    match said {
        Some(0) => assert_eq!(audited, Some(0), "{what}: said to be whole\n{text}"),
        Some(5) => {
            assert!(
                matches!(audited, Some(2 | 4)),
                "{what}: not whole, audit {audited:?}\n{text}"
            );
            assert!(text.contains("cannot"), "{what}: no reason in\n{text}");
        }
        other => panic!("{what}: exit {other:?}\n{text}"),
    }
    said == Some(0)
}

#[test]
fn files_that_may_not_grow_leave_no_run_that_looks_whole() {
    let place = Place::new();
    let mut whole = 0;
    // In blocks of the shell's choosing; a smoke trace has some thirty kilobytes, run.json some ten.
    let limits = [0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 128, 100_000];
    for limit in limits {
        let out = format!("out-{limit}");
        let script = format!(
            "trap '' XFSZ; ulimit -f {limit}; exec \"$0\" run smoke --reps 1 --out {out} --json"
        );
        let run = Finished {
            output: shell(&place, &[], &script),
        };
        let audited = place.run(&["audit", &out]).output.status.code();
        whole += usize::from(holds(&run, audited, &format!("at most {limit} blocks")));
    }
    assert!(
        whole > 0 && whole < limits.len(),
        "{whole} of {} runs were whole",
        limits.len()
    );
}

#[test]
fn a_full_disk_leaves_no_run_that_looks_whole() {
    let place = Place::new();
    fs::create_dir(place.work().join("disk")).unwrap();
    let mount = |options: &str| format!("mount -t tmpfs -o {options} none disk");
    let own_mounts = ["unshare", "--mount", "--map-root-user"];
    let tried = Command::new("sh")
        .args(["-c", "command -v unshare"])
        .output()
        .unwrap();
    let permitted = tried.status.success()
        && shell(&place, &own_mounts, &mount("size=64k"))
            .status
            .success();
    if !permitted {
        return without_a_disk_of_its_own(&place);
    }
    let mut whole = 0;
    let sizes = [4, 16, 32, 64, 96, 128, 160, 192, 224, 256, 1024];
    for size in sizes {
        let script = format!(
            "{} && \"$0\" run smoke --reps 1 --out disk/run --json; run=$?; \
             \"$0\" audit disk/run >/dev/null 2>&1; echo $? > audited; exit $run",
            mount(&format!("size={size}k"))
        );
        let run = Finished {
            output: shell(&place, &own_mounts, &script),
        };
        let audited = fs::read_to_string(place.work().join("audited")).unwrap();
        let audited = audited.trim().parse().ok();
        whole += usize::from(holds(&run, audited, &format!("a disk of {size} KiB")));
    }
    assert!(
        whole > 0 && whole < sizes.len(),
        "{whole} of {} runs were whole",
        sizes.len()
    );
    let script = format!("{}; \"$0\" run smoke --reps 1 --out disk/run", mount("ro"));
    let run = Finished {
        output: shell(&place, &own_mounts, &script),
    };
    run.expect(5).complains(&["cannot create", "Read-only"]);
}

/// Where nothing can be mounted: the device that is always full, and a directory that takes no file of ours. Files that
/// may not grow have a test of their own.
fn without_a_disk_of_its_own(place: &Place) {
    if !Path::new("/dev/full").exists() {
        return skip("disk full: no file system can be mounted here, and there is no /dev/full");
    }
    let script = "\"$0\" run smoke --reps 1 --out whole --json > /dev/full";
    let run = Finished {
        output: shell(place, &[], script),
    };
    run.expect(5)
        .complains(&["cannot write to standard output", "No space left"]);
    place.run(&["audit", "whole"]).expect(0);
    place
        .run(&["run", "smoke", "--reps", "1", "--out", "/proc/fak"])
        .expect(5)
        .complains(&["cannot create"]);
}

#[test]
fn an_output_that_cannot_be_written_is_said_and_the_evidence_is_whole() {
    without_a_disk_of_its_own(&Place::new());
}

#[test]
fn what_is_refused_is_refused_before_the_machine_is_listened_to() {
    let place = Place::new();
    let full = place.sealed_run();
    // So many threads are never quiet together.
    let crowd = ["run", "smoke", "--threads", "64", "--out"];
    let refused = place.run(&[&crowd[..], &[full.to_str().unwrap()]].concat());
    let said = refused.expect(2).stderr();
    assert!(said.contains("never overwritten"), "{said}");
    assert!(!said.contains("noisy machine"), "{said}");
}

#[test]
fn results_that_cannot_be_a_directory_are_named_before_anything_runs() {
    let place = Place::new();
    fs::write(place.work().join("results"), "a file").unwrap();
    let refused = place.run(&["run", "smoke", "--reps", "1"]).expect(5);
    assert!(
        !refused.stderr().contains("round 1"),
        "{}",
        refused.stderr()
    );
    refused.complains(&["cannot create", "results/local/smoke"]);
}

#[test]
fn an_interrupted_run_says_where_it_was_and_is_no_evidence() {
    let place = Place::new();
    let mut command = place.command(&["run", "smoke", "--reps", "50", "--out", "out"]);
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let first = place.work().join("out/trace/naive-0.jsonl");
    wait_for(&first);
    interrupt(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let ended = Finished { output };
    assert_eq!(ended.stdout(), "", "nothing that looks like a result");
    ended.complains(&["evidence goes to out", "until it is sealed"]);
    place.run(&["audit", "out"]).expect(4);
    place
        .run(&["anchor", "out"])
        .expect(4)
        .complains(&["not sealed"]);
    for judge in [
        &["explain", "out"][..],
        &["compare", "out", "out"],
        &["gate", "--against", "out"],
    ] {
        place.run(judge).expect(4);
    }
    place
        .run(&["run", "smoke", "--out", "out"])
        .expect(2)
        .complains(&["never overwritten"]);
}

#[test]
fn an_interrupted_run_goes_on_at_its_next_whole_round_and_lists_both_sittings() {
    let place = Place::new();
    let command = |more: &[&'static str]| {
        let asked = [
            "run", "smoke", "--reps", "50", "--arm", "naive", "--arm", "fused",
        ];
        [&asked[..], more].concat()
    };
    let mut child = place
        .command(&command(&["--out", "out"]))
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let out = place.work().join("out");
    wait_for(&out.join("trace/fused-1.jsonl"));
    let busy = place.run(&command(&["--resume", "out"])).expect(2);
    busy.complains(&["is being run by another process"]);
    interrupt(&mut child);
    child.wait().unwrap();
    let first = std::fs::read(out.join("trace/naive-0.jsonl")).unwrap();
    for (unlike, word) in [
        (&["--threads", "1"][..], "envelope.run.threads"),
        (&["--kernels", "scalar"], "envelope.run.kernels"),
        (&["--mode", "fast"], "envelope.mode"),
    ] {
        let arguments = [command(&["--resume", "out"]), unlike.to_vec()].concat();
        let refused = place.run(&arguments).expect(2);
        refused.complains(&["parts of two runs are no run", word]);
    }
    let arguments = command(&["--resume", "out", "--json"]);
    let resumed = place.run(&arguments).expect(0);
    assert!(
        resumed.stderr().contains("done before, and kept"),
        "{}",
        resumed.stderr()
    );
    assert_eq!(resumed.json()["audit_exit_code"], 0);
    let record = super::read_json(&out.join("run.json"));
    assert_eq!(record["sittings"].as_array().unwrap().len(), 2);
    assert_eq!(record["order"].as_array().unwrap().len(), 100);
    let kept = std::fs::read(out.join("trace/naive-0.jsonl")).unwrap();
    assert_eq!(kept, first, "a whole round is not played again");
    assert!(!out.join("unsealed.json").exists());
    let sealed = place.run(&command(&["--resume", "out"])).expect(2);
    sealed.complains(&["sealed, so nothing is left to run"]);
    let nothing = place.run(&command(&["--resume", "none"])).expect(2);
    nothing.complains(&["no run was begun there"]);
}

/// Interrupts a process as Ctrl-C does. Where that is ignored, as it is in the background of a script, it is ended.
fn interrupt(child: &mut Child) {
    let id = child.id();
    let signal = |name: &str| {
        let kill = format!("kill -{name} {id}");
        Command::new("sh").args(["-c", &kill]).status().unwrap();
    };
    signal("INT");
    let deadline = Instant::now() + Duration::from_secs(1);
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    signal("TERM");
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}
