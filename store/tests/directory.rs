//! A directory: what is kept is there whole or not at all, whatever fails and whoever dies, and never more than it may hold.
#![allow(clippy::unwrap_used)] // tests

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use store::directory::Step;
use store::object::Kind;
use store::{Directory, DirectoryOptions, Name, Store};

fn open(path: &Path) -> Directory {
    Directory::open(path, DirectoryOptions::default()).unwrap()
}

fn name(kind: Kind, of: u64) -> Name {
    Name::of_text(kind, &of.to_string())
}

fn get(store: &dyn Store, name: &Name) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get(name, &mut bytes).unwrap().then_some(bytes)
}

fn left_over(path: &Path) -> usize {
    fs::read_dir(path.join("tmp")).unwrap().count()
}

#[test]
fn a_step_that_fails_leaves_what_was_there_and_nothing_beside_it() {
    for kind in [Kind::Page, Kind::Lease] {
        for failing in Step::ALL {
            for full in [true, false] {
                let scratch = tempfile::tempdir().unwrap();
                let path = scratch.path();
                let name = name(kind, 1);
                open(path).put(&name, b"before").unwrap();
                let why = if full {
                    io::ErrorKind::StorageFull
                } else {
                    io::ErrorKind::Other
                };
                let failing = move |step| {
                    if step == failing {
                        Err(why.into())
                    } else {
                        Ok(())
                    }
                };
                let store = open(path).asking(Box::new(failing));
                let put = store.put(&name, b"what comes after");
                let found = get(&store, &name).unwrap();
                if put.is_err() {
                    assert!(put.unwrap_err().to_string().contains("put"), "{kind:?}");
                }
                // Once it has its name, it has all its bytes, whatever the system says later.
                assert!(found == b"before" || found == b"what comes after");
                let new = Name::of_text(kind, "new");
                let claimed = store.claim(&new, b"mine");
                let there = get(&store, &new);
                assert!(there.is_none() || there.as_deref() == Some(b"mine"));
                assert!(claimed.is_err() || there.is_some());
                assert_eq!(left_over(path), 0);
            }
        }
    }
}

/// Set for the process that is to die at a step: its number, and where.
const DIES: (&str, &str) = ("FAK_TEST_DIES_AT", "FAK_TEST_DIES_IN");

/// What the dying process runs; a test of its own name, so that it can be asked for alone.
#[test]
fn a_process_asked_to_die_dies() {
    let (Ok(step), Ok(path)) = (std::env::var(DIES.0), std::env::var(DIES.1)) else {
        return; // nobody asked
    };
    let dies_at = Step::ALL[step.parse::<usize>().unwrap()];
    let dies = move |step| {
        if step == dies_at {
            // SIGKILL of ourselves: nothing is flushed, nothing unwinds.
            let own = std::process::id().to_string();
            Command::new("kill").args(["-9", &own]).status().unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        Ok(())
    };
    let store = open(Path::new(&path)).asking(Box::new(dies));
    store.put(&name(Kind::Page, 1), &vec![2; 3 << 20]).unwrap();
}

#[test]
fn a_process_killed_at_any_step_leaves_all_of_the_old_or_all_of_the_new() {
    for (index, step) in Step::ALL.into_iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path();
        open(path).put(&name(Kind::Page, 1), b"old").unwrap();
        let killed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_asked_to_die_dies"])
            .env(DIES.0, index.to_string())
            .env(DIES.1, path)
            .output()
            .unwrap();
        assert!(!killed.status.success(), "{step:?}: it was to be killed");
        let found = get(&open(path), &name(Kind::Page, 1)).unwrap();
        let new = step == Step::SyncDirectory;
        let expected = if new {
            vec![2; 3 << 20]
        } else {
            b"old".to_vec()
        };
        assert!(found == expected, "{step:?}: {} bytes", found.len());
        assert_eq!(open(path).list(Kind::Page).unwrap().len(), 1);
        // What it left is removed by whoever opens the directory once it is old.
        for file in fs::read_dir(path.join("tmp")).unwrap() {
            let file = fs::File::open(file.unwrap().path()).unwrap();
            let then = SystemTime::now() - Duration::from_secs(7200);
            file.set_modified(then).unwrap();
        }
        open(path);
        assert_eq!(left_over(path), 0, "{step:?}");
    }
}

#[test]
fn of_those_that_claim_a_name_at_once_one_gets_it() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Arc::new(open(scratch.path()));
    for round in 0..50 {
        let (name, start) = (name(Kind::Lease, round), Arc::new(Barrier::new(8)));
        let claims = (0..8_u8).map(|who| {
            let (store, start) = (Arc::clone(&store), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                store.claim(&name, &[who; 100]).unwrap()
            })
        });
        let claims: Vec<_> = claims.collect();
        let won: Vec<_> = claims.into_iter().map(|it| it.join().unwrap()).collect();
        assert_eq!(won.iter().filter(|it| **it).count(), 1);
        let winner = won.iter().position(|it| *it).unwrap() as u8;
        assert_eq!(get(&*store, &name), Some(vec![winner; 100]));
    }
}

#[test]
fn what_is_no_name_of_ours_is_neither_listed_nor_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    let store = open(path);
    fs::write(path.join("page/readme"), "x").unwrap();
    fs::create_dir(path.join("page").join(name(Kind::Page, 1).digits())).unwrap();
    fs::write(path.join("secret"), "x").unwrap();
    let linked = name(Kind::Page, 2);
    std::os::unix::fs::symlink(path.join("secret"), path.join("page").join(linked.digits()))
        .unwrap();
    assert!(store.list(Kind::Page).unwrap().is_empty());
    for name in [name(Kind::Page, 1), linked] {
        assert!(store.get(&name, &mut Vec::new()).is_err());
    }
    assert_eq!(get(&store, &name(Kind::Page, 3)), None);
    store.remove(&name(Kind::Page, 3)).unwrap();
}

/// Something done to a store with a limit.
#[derive(Clone, Debug)]
enum Act {
    Put(u64, usize),
    Remove(u64),
    /// By another process: it goes unnoticed.
    PutElsewhere(u64, usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pages_never_take_more_than_they_may_and_other_kinds_stay(
        most in 100..1000_u64,
        acts in prop::collection::vec(prop_oneof![
            4 => (0..12_u64, 0..400_usize).prop_map(|(of, len)| Act::Put(of, len)),
            1 => (0..12_u64).prop_map(Act::Remove),
            1 => (0..12_u64, 0..100_usize).prop_map(|(of, len)| Act::PutElsewhere(of, len)),
        ], 1..60),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { bytes_max: Some(most) };
        let store = Directory::open(scratch.path(), options).unwrap();
        let other = Directory::open(scratch.path(), options).unwrap();
        store.put(&name(Kind::Session, 1), &[7; 2000]).unwrap();
        let mut last: BTreeMap<u64, usize> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Put(of, len) | Act::PutElsewhere(of, len) => {
                    let by = if matches!(act, Act::Put(..)) { &store } else { &other };
                    let put = by.put(&name(Kind::Page, of), &vec![of as u8; len]);
                    prop_assert_eq!(put.is_ok(), len as u64 <= most);
                    if put.is_ok() {
                        last.insert(of, len);
                        prop_assert_eq!(get(&store, &name(Kind::Page, of)), Some(vec![of as u8; len]));
                    }
                }
                Act::Remove(of) => {
                    store.remove(&name(Kind::Page, of)).unwrap();
                    last.remove(&of);
                }
            }
        }
        // One that writes alone keeps to the limit; of two each keeps to it for what it knows.
        store.put(&name(Kind::Page, 99), &vec![1; most as usize]).unwrap();
        let kept: u64 = store.list(Kind::Page).unwrap().iter().filter_map(|it| it.bytes).sum();
        prop_assert!(kept <= most, "{} of {}", kept, most);
        for (of, len) in last {
            let found = get(&store, &name(Kind::Page, of));
            prop_assert!(found.is_none() || found == Some(vec![of as u8; len]));
        }
        prop_assert!(get(&store, &name(Kind::Session, 1)).is_some());
    }
}

#[test]
fn the_page_not_found_for_longest_goes_first() {
    let scratch = tempfile::tempdir().unwrap();
    let options = DirectoryOptions {
        bytes_max: Some(300),
    };
    let store = Directory::open(scratch.path(), options).unwrap();
    for of in 0..3 {
        store.put(&name(Kind::Page, of), &[1; 100]).unwrap();
        let file = scratch
            .path()
            .join("page")
            .join(name(Kind::Page, of).digits());
        let then = SystemTime::now() - Duration::from_secs(1000 - of * 100);
        fs::File::open(file).unwrap().set_modified(then).unwrap();
    }
    get(&store, &name(Kind::Page, 0)).unwrap(); // the oldest, found just now
    store.put(&name(Kind::Page, 3), &[1; 100]).unwrap();
    let there = [0, 1, 2, 3].map(|of| get(&store, &name(Kind::Page, of)).is_some());
    assert_eq!(there, [true, false, true, true]);
}
