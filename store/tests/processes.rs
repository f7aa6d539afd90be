//! Other processes: what one left is found by the next, whether it ended or was killed, and a dead leader is replaced.
//!
//! The other process is this program again, asked for one test by name, with its part in the environment.
#![allow(clippy::unwrap_used)] // tests

mod common;

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Client, cold, element_types, text};
use store::object::Kind;
use store::{Directory, DirectoryOptions, Store, What};

/// The other process's part: what it does, in which directory, with which type of keys and values.
const PART: [&str; 3] = ["FAK_TEST_PART", "FAK_TEST_STORE", "FAK_TEST_TYPE"];
const LEN: usize = 300;

fn store(path: &Path) -> Arc<dyn Store> {
    Arc::new(Directory::open(path, DirectoryOptions::default()).unwrap())
}

fn other(part: &str, path: &Path, kv_type: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_part_of_the_other_process"]);
    command.env(PART[0], part).env(PART[1], path);
    command.env(PART[2], kv_type.to_string());
    command.stdout(std::process::Stdio::null());
    command.spawn().unwrap()
}

/// Passes when nobody gave it a part.
#[test]
fn the_part_of_the_other_process() {
    let Ok(part) = std::env::var(PART[0]) else {
        return;
    };
    let path = std::env::var(PART[1]).unwrap();
    let kv_type: usize = std::env::var(PART[2]).unwrap().parse().unwrap();
    let store = store(Path::new(&path));
    let mut client = Client::new(&element_types()[kv_type], store, &part);
    match part.as_str() {
        "answers" => {
            client.answer(0, &text(LEN, 1), 30);
            client
                .worker
                .seal(0, "agent", 0, &mut client.heard)
                .unwrap();
            client.flush();
        }
        "leads" => {
            client.ask(0, &text(LEN, 1), 1, None);
            while client.heard.steps == 0 {
                client.step();
            }
            std::thread::sleep(Duration::from_secs(600)); // alive, and its lease with it, until it is killed
        }
        _ => loop {
            // Keeps one text after the other, until it is killed.
            let id = client.ask(
                0,
                &text(LEN, client.heard.answers.len() as u64 + 1),
                1,
                None,
            );
            while !client.heard.answers[&id].finished {
                client.step();
            }
        },
    }
}

#[test]
fn what_a_process_left_answers_in_the_next_as_a_cold_run_its_sessions_too() {
    for (kv_type, options) in element_types().into_iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(
            other("answers", scratch.path(), kv_type)
                .wait()
                .unwrap()
                .success()
        );
        let said = cold(&options, &text(LEN, 1), 30).said();
        for len in [63, 64, 65, 128, 129, 200, 256, 320] {
            let mut client = Client::new(&options, store(scratch.path()), "next");
            let prompt = [&said[..len], &text(9, 7)].concat();
            let answer = client.answer(0, &prompt, 3);
            assert_eq!(answer.store, len / 64 * 64);
            assert_eq!(
                answer.result(),
                cold(&options, &prompt, 3).result(),
                "{len}"
            );
        }
        let mut client = Client::new(&options, store(scratch.path()), "resumes");
        let prompt = [&said[..], &text(9, 7)].concat();
        let id = client.ask(5, &prompt, 20, Some("agent"));
        client.run();
        let answer = &client.heard.answers[&id];
        assert_eq!((answer.store, answer.computed, answer.carried), (329, 9, 1));
        assert_eq!(answer.result(), cold(&options, &prompt, 20).result());
    }
}

#[test]
fn a_process_killed_while_it_computes_for_others_is_replaced_by_one_of_them() {
    let options = element_types()[1];
    let scratch = tempfile::tempdir().unwrap();
    let mut leader = other("leads", scratch.path(), 1);
    let shared = store(scratch.path());
    let start = Instant::now();
    while shared.list(Kind::Lease).unwrap().is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it takes no lease"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut others = ["second", "third"].map(|name| Client::new(&options, shared.clone(), name));
    for other in &mut others {
        other.ask(0, &text(LEN, 1), 3, None);
    }
    for _ in 0..100 {
        for other in &mut others {
            other.step();
        }
    }
    assert!(others.iter().all(|it| it.heard.steps == 0), "they wait");
    leader.kill().unwrap(); // SIGKILL
    leader.wait().unwrap();
    while others.iter_mut().fold(false, |more, it| it.step() | more) {}
    let answers = others.each_ref().map(|it| it.heard.answers[&0].clone());
    let computed: usize = answers.iter().map(|it| it.computed).sum();
    assert_eq!(
        computed,
        LEN + LEN - 256,
        "one of them computes, the other takes in"
    );
    let took_over = others
        .iter()
        .filter(|it| it.whats().contains(&&What::TookOver));
    assert_eq!(took_over.count(), 1);
    let expected = cold(&options, &text(LEN, 1), 3);
    assert!(answers.iter().all(|it| it.result() == expected.result()));
}

#[test]
fn whoever_is_killed_while_keeping_leaves_whole_pages_or_none() {
    let options = element_types()[1];
    let layout = common::engine(&options).layout();
    let mut pages = 0;
    for round in 0..12 {
        let scratch = tempfile::tempdir().unwrap();
        let mut keeps = other("keeps", scratch.path(), 1);
        let shared = store(scratch.path());
        let start = Instant::now();
        while shared.list(Kind::Page).unwrap().len() < 1 + 3 * round {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it keeps nothing"
            );
        }
        keeps.kill().unwrap();
        keeps.wait().unwrap();
        for entry in shared.list(Kind::Page).unwrap() {
            let mut bytes = Vec::new();
            assert!(shared.get(&entry.name, &mut bytes).unwrap());
            let page = engine::CheckedPage::read(bytes, layout);
            assert!(page.is_ok(), "{}: {:?}", entry.name, page.err());
            pages += 1;
        }
        let mut client = Client::new(&options, shared, "next");
        let answer = client.answer(0, &text(LEN, 1), 2);
        assert_eq!(answer.result(), cold(&options, &text(LEN, 1), 2).result());
    }
    assert!(pages >= 12);
}
