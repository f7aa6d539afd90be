//! Workers that share a store: what one computed the others take in, bit for bit, and nobody computes it twice.
#![allow(clippy::unwrap_used)] // tests

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::{Client, Shelf, Way, cold, element_types, keeper, text};
use engine::{OnQuarantine, PAGE_POSITIONS};
use store::object::Kind;
use store::{Announced, Directory, DirectoryOptions, KeeperOptions, Store, What};

/// Around page borders, and within pages.
const LENGTHS: [usize; 8] = [63, 64, 65, 127, 128, 129, 192, 300];

fn shelf() -> Arc<Shelf> {
    Arc::new(Shelf::default())
}

#[test]
fn a_text_of_any_length_that_another_worker_kept_answers_as_a_cold_run() {
    for options in element_types() {
        for len in LENGTHS {
            let shelf = shelf();
            let (whole, own) = (text(len, 1), text(20, 9));
            let mut first = Client::new(&options, shelf.clone(), "first");
            first.answer(0, &whole, 2);
            first.flush();
            drop(first);
            let mut second = Client::new(&options, shelf.clone(), "second");
            let prompt = [&whole[..], &own].concat();
            let answer = second.answer(0, &prompt, 5);
            let kept = len / PAGE_POSITIONS * PAGE_POSITIONS;
            assert_eq!((answer.store, answer.instance), (kept, 0), "{len}");
            assert_eq!(answer.computed, prompt.len() - kept);
            assert_eq!(
                answer.result(),
                cold(&options, &prompt, 5).result(),
                "{len}"
            );
            let restored = second
                .heard
                .told
                .iter()
                .find(|it| it.what == What::Restored);
            assert_eq!(restored.map_or(0, |told| told.positions), kept);
        }
    }
}

#[test]
fn what_was_decoded_is_found_by_others_too_and_only_new_pages_are_kept() {
    let options = element_types()[1];
    let shelf = shelf();
    let mut first = Client::new(&options, shelf.clone(), "first");
    let said = first.answer(0, &text(100, 1), 100).said();
    first.flush();
    assert_eq!(
        shelf.count(Kind::Page),
        3,
        "199 positions have keys and values"
    );
    let mut second = Client::new(&options, shelf.clone(), "second");
    let prompt = [&said[..], &text(9, 2)].concat();
    let answer = second.answer(0, &prompt, 3);
    assert_eq!(answer.store, 192);
    assert_eq!(answer.result(), cold(&options, &prompt, 3).result());
    second.flush();
    assert_eq!(shelf.count(Kind::Page), 3, "211 positions, no page more");
    assert_eq!(shelf.count(Kind::Lease), 0);
}

#[test]
fn workers_that_miss_together_compute_a_prefix_once_in_memory() {
    let shelf = shelf();
    miss_together(&|| shelf.clone());
}

#[test]
fn workers_that_miss_together_compute_a_prefix_once_through_a_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let open = || Directory::open(scratch.path(), DirectoryOptions::default()).unwrap();
    miss_together(&|| Arc::new(open()));
}

#[test]
#[cfg(feature = "redis")]
fn workers_that_miss_together_compute_a_prefix_once_through_redis() {
    let Ok(url) = std::env::var("FAK_TEST_REDIS") else {
        return common::skip("workers that share through Redis: FAK_TEST_REDIS is not set");
    };
    let prefix = format!("sharing {}:", std::process::id());
    let open = || store::Redis::open(&url, &prefix, store::RedisOptions::default()).unwrap();
    miss_together(&|| Arc::new(open()));
}

/// Four workers at once, each with its own way to one store.
fn miss_together(open: &dyn Fn() -> Arc<dyn Store>) {
    let options = element_types()[1];
    let (workers, agents, prefix) = (4, 3, 256);
    let start = Arc::new(Barrier::new(workers));
    let threads = (0..workers).map(|worker| {
        let (store, start) = (open(), Arc::clone(&start));
        std::thread::spawn(move || {
            let mut client = Client::new(&options, store, &format!("w{worker}"));
            start.wait();
            let prompt = |agent| {
                [
                    text(prefix, 1),
                    text(30, 2 + (worker * agents + agent) as u64),
                ]
                .concat()
            };
            for agent in 0..agents {
                client.ask(agent as u64, &prompt(agent), 4, None);
            }
            client.run();
            client.flush();
            client.heard
        })
    });
    let threads: Vec<_> = threads.collect();
    let heard: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    let answers: Vec<_> = heard
        .iter()
        .flat_map(|heard| heard.answers.values())
        .collect();
    let computed: usize = answers.iter().map(|answer| answer.computed).sum();
    assert_eq!(answers.len(), workers * agents);
    assert_eq!(computed, prefix + workers * agents * 30);
    for answer in answers {
        assert_eq!(answer.result(), cold(&options, &answer.prompt, 4).result());
    }
    let whats = heard
        .iter()
        .flat_map(|heard| &heard.told)
        .map(|told| &told.what);
    let odd: Vec<_> = whats
        .filter(|it| !matches!(it, What::Published | What::Restored))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
    let leases = open().list(Kind::Lease).unwrap();
    assert!(leases.is_empty(), "all are given up");
}

#[test]
fn a_leader_that_dies_is_replaced_and_the_prefix_is_computed_at_most_twice() {
    let options = element_types()[1];
    let (shelf, prompt) = (shelf(), text(300, 1));
    let way = Way::to(&shelf);
    let short = KeeperOptions {
        lease_ms: 600,
        ..keeper("leader")
    };
    let mut leader = Client::with(&options, way.clone(), short);
    leader.ask(0, &prompt, 4, None);
    while shelf.count(Kind::Lease) == 0 || leader.heard.steps == 0 {
        leader.step();
    }
    way.cut.store(true, Ordering::SeqCst); // after its first step: as if the process were gone
    let mut others: Vec<_> = ["second", "third"]
        .map(|name| Client::new(&options, shelf.clone(), name))
        .into();
    for other in &mut others {
        other.ask(0, &prompt, 4, None);
    }
    while others.iter_mut().fold(false, |more, it| it.step() | more) {}
    let computed: Vec<_> = others
        .iter()
        .map(|it| it.heard.answers[&0].computed)
        .collect();
    assert_eq!(
        computed.iter().sum::<usize>(),
        300 + 300 - 256,
        "{computed:?}"
    );
    let took_over = others
        .iter()
        .filter(|it| it.whats().contains(&&What::TookOver));
    assert_eq!(took_over.count(), 1);
    for other in others {
        assert_eq!(
            other.heard.answers[&0].result(),
            cold(&options, &prompt, 4).result()
        );
    }
}

#[test]
fn a_slow_leader_that_lives_is_waited_for_however_long_it_takes() {
    let options = element_types()[1];
    let (shelf, prompt) = (shelf(), text(300, 1));
    let short = KeeperOptions {
        lease_ms: 1500,
        ..keeper("leader")
    };
    let mut leader = Client::with(&options, shelf.clone(), short);
    leader.ask(0, &prompt, 4, None);
    while leader.heard.steps == 0 {
        leader.step();
    }
    let mut other = Client::new(&options, shelf.clone(), "other");
    other.ask(0, &prompt, 4, None);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        other.step(); // more than twice the length of its lease
    }
    assert_eq!(other.heard.steps, 0, "it waits");
    leader.run();
    leader.flush();
    other.run();
    assert_eq!(other.heard.answers[&0].store, 256);
    assert!(!other.whats().contains(&&What::TookOver));
}

#[test]
fn a_store_that_hangs_costs_a_request_its_deadline_and_running_ones_nothing() {
    let options = element_types()[1];
    let shelf = shelf();
    let impatient = KeeperOptions {
        deadline_ms: 300,
        ..keeper("impatient")
    };
    let mut client = Client::with(&options, shelf.clone(), impatient);
    let running = client.ask(0, &text(100, 1), 4000, None);
    while client.heard.answers[&running].tokens.is_empty() {
        client.step();
    }
    shelf.hang(true);
    let waits = client.ask(1, &text(200, 2), 3, None);
    let before = client.heard.answers[&running].tokens.len();
    while !client.heard.answers[&waits].finished {
        client.step();
    }
    let meanwhile = client.heard.answers[&running].tokens.len() - before;
    assert!(meanwhile > 20, "{meanwhile} tokens while the other waited");
    assert!(client.whats().contains(&&What::Late));
    assert_eq!(client.heard.answers[&waits].store, 0);
    // Once it is known to hang, nobody waits for it.
    let steps = client.heard.steps;
    let next = client.ask(2, &text(200, 3), 1, None);
    while !client.heard.answers[&next].finished {
        client.step();
    }
    assert!(client.heard.steps - steps < 10);
    shelf.hang(false);
    client.worker.cancel(running);
    client.run();
    let again = client.answer(3, &text(150, 4), 2);
    assert_eq!(again.result(), cold(&options, &again.prompt, 2).result());
}

#[test]
fn a_dead_store_is_told_of_and_every_request_is_answered() {
    let options = element_types()[1];
    let shelf = shelf();
    shelf.dead.store(true, Ordering::SeqCst);
    let mut client = Client::new(&options, shelf, "alone");
    let answer = client.answer(0, &text(200, 1), 3);
    client.flush();
    assert_eq!(answer.result(), cold(&options, &answer.prompt, 3).result());
    let failed = |what: &&What| matches!(what, What::Failed(why) if why.contains("it is dead"));
    assert!(client.whats().iter().any(failed));
}

#[test]
fn a_dead_store_is_not_asked_again_before_time_has_passed() {
    let shelf = shelf();
    shelf.dead.store(true, Ordering::SeqCst);
    let engine = common::engine(&element_types()[1]);
    let still: store::Clock = Arc::new(|| 1_000_000);
    let worker = store::Worker::new(engine, shelf.clone(), keeper("alone"), still).unwrap();
    while shelf.calls.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(200)); // in which a thread that does not pause asks thousands of times
    drop(worker);
    assert_eq!(shelf.calls.load(Ordering::SeqCst), 1);
}

#[test]
fn nobody_waits_for_a_leader_whose_request_a_quarantine_ended() {
    let options = element_types()[1];
    let (shelf, prompt) = (shelf(), text(300, 1));
    let mut leader = Client::new(&options, shelf.clone(), "leader");
    leader.ask(0, &prompt, 4, None);
    while leader.heard.steps == 0 {
        leader.step();
    }
    let mut other = Client::new(&options, shelf.clone(), "other");
    other.ask(0, &prompt, 4, None);
    let scope = leader.scope.clone();
    let abort = OnQuarantine::Abort;
    let done = leader.worker.quarantine(&scope, &prompt[..280], 270, abort);
    assert_eq!(done.unwrap().aborted, [0]);
    leader.flush();
    other.run();
    assert!(!other.whats().contains(&&What::TookOver), "it was given up");
    assert_eq!(
        other.heard.answers[&0].result(),
        cold(&options, &prompt, 4).result()
    );
    other.flush();
    assert_eq!(shelf.count(Kind::Lease), 0);
    assert!(!leader.step(), "nothing is left to do");
}

#[test]
fn what_does_not_fit_the_queue_is_dropped_and_told() {
    let options = element_types()[1];
    let shelf = shelf();
    let narrow = KeeperOptions {
        queue_bytes: 1,
        ..keeper("narrow")
    };
    let mut client = Client::with(&options, shelf.clone(), narrow);
    client.answer(0, &text(200, 1), 3);
    client.flush();
    assert_eq!(shelf.count(Kind::Page), 0);
    assert_eq!(shelf.count(Kind::Lease), 0, "others need not wait");
    assert!(client.whats().contains(&&What::Dropped));
}

#[test]
fn a_quarantine_reaches_every_worker_and_whoever_starts_later() {
    for options in element_types() {
        let (shelf, whole) = (shelf(), text(300, 1));
        let mut first = Client::new(&options, shelf.clone(), "first");
        let mut second = Client::new(&options, shelf.clone(), "second");
        first.answer(0, &whole, 2);
        first.flush();
        assert_eq!(second.answer(0, &whole, 2).store, 256);
        let scope = first.scope.clone();
        let running = OnQuarantine::Finish;
        first
            .worker
            .quarantine(&scope, &whole[..100], 70, running)
            .unwrap();
        first.flush();
        // The second hears of it between two requests, a third before it takes anything in.
        let start = Instant::now();
        while second.worker.engine().findable(&scope, &whole) > 70 {
            second.step();
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "it does not hear of it"
            );
        }
        let mut third = Client::new(&options, shelf.clone(), "third");
        for client in [&mut first, &mut second, &mut third] {
            let answer = client.answer(5, &whole, 2);
            assert!(answer.own + answer.instance + answer.store <= 70);
            assert_eq!(answer.result(), cold(&options, &whole, 2).result());
        }
    }
}

#[test]
fn workers_say_which_pages_they_have() {
    let options = element_types()[1];
    let (shelf, whole) = (shelf(), text(300, 1));
    let mut first = Client::new(&options, shelf.clone(), "first");
    let mut second = Client::new(&options, shelf.clone(), "second");
    first.answer(0, &whole, 2);
    second.answer(0, &text(130, 2), 2);
    first.flush();
    second.flush();
    let engine = first.worker.engine();
    let (root, keys) = (
        engine.root_key().unwrap(),
        engine.page_keys(&first.scope, &whole).unwrap(),
    );
    let all = Announced::all(&*shelf, &root).unwrap();
    let found: Vec<_> = all
        .iter()
        .map(|it| (it.worker.as_str(), it.has(&keys)))
        .collect();
    assert_eq!(found, [("first", 4), ("second", 0)]);
}
