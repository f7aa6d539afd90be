//! A server that runs already, as a whole run: asked, left as it was, and refused where it is not the one that is needed.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::read_json;
use super::servers::{Stage, ratio};

/// A played server of ours, started as its user would.
struct Running {
    child: Child,
    url: String,
    port: u16,
}

impl Running {
    /// With so many slots, the stage's model or another file, and more arguments.
    fn start(stage: &Stage, slots: &str, model: &Path, more: &[&str]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut command = Command::new(stage.server());
        // The played server takes the first of two.
        command.args(more);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["-np", slots, "-c", "1024", "-t", "2", "-fa", "off"]);
        command.arg("-m").arg(model);
        command.env("FAKE_ANSWERS", stage.answers());
        command.stderr(Stdio::null());
        let child = command.spawn().unwrap();
        for _ in 0..500 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let url = format!("llama-server=http://127.0.0.1:{port}");
        Self { child, url, port }
    }

    fn still_runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_runs_is_asked_twice_from_cold_and_left_running() {
    let stage = Stage::new();
    let slots = tempfile::tempdir().unwrap();
    let keep = slots.path().to_str().unwrap();
    let model = stage.model();
    let mut server = Running::start(&stage, "2", &model, &["--slot-save-path", keep]);
    let url = server.url.clone();
    let run = ["run", "beside.toml", "--attach", &url, "--json"];
    for _ in 0..2 {
        let outcome = stage.run(&run, "").expect(0).json();
        assert_eq!(
            (&outcome["complete"], &outcome["audit_exit_code"]),
            (&true.into(), &0.into())
        );
        let directory = Path::new(outcome["dir"].as_str().unwrap());
        let record = read_json(&directory.join("run.json"));
        let program = &record["arms"]["llama-server:shared"]["server"]["program"];
        assert_eq!(program["arguments"].as_array().unwrap().len(), 0);
        assert_eq!(program["sha256"], Value::Null);
        // With how many threads it answers nobody knows, so its time is compared with nobody's.
        let beside = ratio(&outcome, "fused", "llama-server:shared");
        let withheld = "how it was started is unknown: llama-server:shared";
        assert_eq!(
            (&beside["withheld"], &beside["verdict"]),
            (&withheld.into(), &Value::Null)
        );
        assert!(beside["prefill_tokens"].is_number());
        assert!(server.still_runs());
    }
    let shown = stage.run(&run[..4], "").expect(0).stdout();
    assert!(shown.contains("ran before"), "{shown}");
    assert!(!shown.contains(&server.port.to_string()), "{shown}");
}

#[test]
fn a_server_that_is_not_the_one_needed_fails_its_arms_with_what_to_start_it_with() {
    let stage = Stage::new();
    let slots = tempfile::tempdir().unwrap();
    let keep = ["--slot-save-path", slots.path().to_str().unwrap()];
    let (model, other) = (stage.model(), slots.path().join("other.gguf"));
    std::fs::write(&other, "another model").unwrap();
    for (count, file, more, words) in [
        ("3", &model, &keep[..], "start it with -np 2"),
        ("2", &other, &keep, "is not the model of this run"),
        (
            "2",
            &model,
            &[keep[0], keep[1], "-c", "100"],
            "start it with -c",
        ),
        ("2", &model, &[], "--slot-save-path"),
    ] {
        let server = Running::start(&stage, count, file, more);
        let arguments = [
            "run",
            "beside.toml",
            "--reps",
            "1",
            "--attach",
            &server.url,
            "--json",
        ];
        let outcome = stage.run(&arguments, "").expect(5).json();
        assert_eq!(outcome["audit_exit_code"], 0, "{words}");
        let said = &outcome["arms"]["llama-server:agent"]["error"];
        let said = said.as_str().unwrap_or("no error");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_address_where_nobody_listens_is_given_up_soon() {
    let stage = Stage::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("llama-server=http://{}", listener.local_addr().unwrap());
    drop(listener);
    let arguments = [
        "run",
        "beside.toml",
        "--reps",
        "1",
        "--attach",
        &url,
        "--json",
    ];
    let outcome = stage.run(&arguments, "").expect(5).json();
    let said = &outcome["arms"]["llama-server:agent"]["error"];
    let said = said.as_str().unwrap_or("no error");
    assert!(said.contains("not up within 5 s"), "{said}");
}

#[test]
fn an_address_that_is_none_or_that_nobody_needs_is_refused_before_anything_runs() {
    let stage = Stage::new();
    for (arguments, words) in [
        (
            ["--attach", "llama-server=example.org"],
            "http://127.0.0.1:PORT",
        ),
        (["--attach", "vllm=http://127.0.0.1:1"], "llama-server=http"),
    ] {
        let run = [["run", "beside.toml"], arguments].concat();
        let said = stage.run(&run, "").expect(2).stderr();
        assert!(said.contains(words), "{said}");
    }
    let url = "llama-server=http://127.0.0.1:1";
    let run = ["run", "beside.toml", "--arm", "fused", "--attach", url];
    let said = stage.run(&run, "").expect(2).stderr();
    assert!(
        said.contains("no arm of this run is answered by it"),
        "{said}"
    );
}
