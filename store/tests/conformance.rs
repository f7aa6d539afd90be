//! What every store does, asked of each: in memory, in a directory, and on the servers that the environment names.
//!
//! `store/tests/servers.sh cargo test -p store --test conformance` starts such servers. Not here: what only one of them does.

#![allow(clippy::unwrap_used)] // tests

use std::sync::atomic::{AtomicU64, Ordering};

use store::{Directory, DirectoryOptions, Kind, Memory, Name, Store};

/// A page of a model of ordinary size.
const PAGE_BYTES: usize = 3 << 20;

/// Says that a test did not run, where `./test.sh` counts it.
#[allow(clippy::print_stderr, dead_code)] // out loud; without servers' features nobody calls it
fn skip(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(log) = std::env::var_os("FAK_SKIPS") {
        use std::io::Write;
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.unwrap(), "skipped: {why}").unwrap();
    }
}

/// A name that no other test and no other run asks for.
fn name(kind: Kind) -> Name {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.unwrap().as_nanos();
    Name::of_text(kind, &format!("{} {nanos} {count}", std::process::id()))
}

fn read(store: &dyn Store, name: &Name) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get(name, &mut bytes).unwrap().then_some(bytes)
}

fn listed(store: &dyn Store, name: &Name) -> bool {
    let entries = store.list(name.kind).unwrap();
    assert!(entries.iter().all(|entry| entry.name.kind == name.kind));
    let found: Vec<_> = entries.iter().filter(|entry| entry.name == *name).collect();
    assert!(found.len() <= 1);
    if let Some(entry) = found.first() {
        let kept = read(store, name).unwrap().len() as u64;
        assert!(entry.bytes.is_none_or(|bytes| bytes == kept));
    }
    !found.is_empty()
}

fn reads_back_what_was_written_last(store: &dyn Store) {
    for kind in Kind::ALL {
        let name = name(kind);
        assert_eq!(read(store, &name), None);
        for bytes in [&b"old"[..], b"newer", b"", b"\0\r\n\xff"] {
            store.put(&name, bytes).unwrap();
            assert_eq!(read(store, &name).unwrap(), bytes);
        }
        store.remove(&name).unwrap();
        assert_eq!(read(store, &name), None);
        store.remove(&name).unwrap();
    }
}

fn keeps_a_page_whole(store: &dyn Store) {
    let name = name(Kind::Page);
    let bytes: Vec<u8> = (0..PAGE_BYTES).map(|at| (at * 31 % 251) as u8).collect();
    store.put(&name, &bytes).unwrap();
    assert!(read(store, &name).unwrap() == bytes);
    assert!(listed(store, &name));
    store.remove(&name).unwrap();
}

fn appends_what_it_reads(store: &dyn Store) {
    let (there, absent) = (name(Kind::Page), name(Kind::Page));
    store.put(&there, b"page").unwrap();
    let mut bytes = b"before ".to_vec();
    assert!(!store.get(&absent, &mut bytes).unwrap());
    assert_eq!(bytes, b"before ");
    assert!(store.get(&there, &mut bytes).unwrap());
    assert_eq!(bytes, b"before page");
    store.remove(&there).unwrap();
}

fn lists_what_is_kept(store: &dyn Store) {
    for kind in Kind::ALL {
        let names: Vec<Name> = (0..12).map(|_| name(kind)).collect();
        for (number, name) in names.iter().enumerate() {
            if number % 2 == 0 {
                store.put(name, &vec![7; number]).unwrap();
            } else {
                assert!(store.claim(name, &vec![7; number]).unwrap());
            }
        }
        assert!(names.iter().all(|name| listed(store, name)));
        for name in &names {
            store.remove(name).unwrap();
        }
        assert!(!names.iter().any(|name| listed(store, name)));
    }
}

fn gives_a_claim_to_one_of_eight(store: &dyn Store) {
    for round in 0..4 {
        let name = name(Kind::Lease);
        let won: Vec<u8> = std::thread::scope(|scope| {
            let claim = |number: u8| store.claim(&name, &[number; 100]).unwrap();
            let asked: Vec<_> = (0..8_u8)
                .map(|number| (number, scope.spawn(move || claim(number))))
                .collect();
            let won = asked.into_iter().filter_map(|(number, claim)| {
                let won = claim.join().unwrap();
                won.then_some(number)
            });
            won.collect()
        });
        assert_eq!(won.len(), 1, "round {round}: {won:?}");
        assert_eq!(read(store, &name).unwrap(), [won[0]; 100]);
        assert!(!store.claim(&name, b"late").unwrap());
        store.remove(&name).unwrap();
        assert!(store.claim(&name, b"again").unwrap());
        store.put(&name, b"renewed").unwrap();
        assert_eq!(read(store, &name).unwrap(), b"renewed");
        store.remove(&name).unwrap();
    }
}

fn never_shows_part_of_what_is_written(store: &dyn Store) {
    let name = name(Kind::Session);
    store.put(&name, &vec![0; 100_000]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let bytes = read(store, &name).unwrap();
                let whole = bytes.iter().all(|byte| *byte == bytes[0]);
                assert!(whole && bytes.len() == 100_000 + bytes[0] as usize);
            }
        });
        for round in 1..20_u8 {
            let bytes = vec![round; 100_000 + round as usize];
            store.put(&name, &bytes).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    store.remove(&name).unwrap();
}

fn refuses_what_is_too_long(store: &dyn Store) {
    let name = name(Kind::Page);
    let bytes = vec![0; store::OBJECT_BYTES_MAX as usize + 1];
    store.put(&name, &bytes).unwrap_err();
    store.claim(&name, &bytes).unwrap_err();
    assert_eq!(read(store, &name), None);
}

fn conforms(store: &dyn Store) {
    assert!(
        store
            .kind()
            .chars()
            .all(|letter| letter.is_ascii_lowercase())
    );
    reads_back_what_was_written_last(store);
    keeps_a_page_whole(store);
    appends_what_it_reads(store);
    lists_what_is_kept(store);
    gives_a_claim_to_one_of_eight(store);
    never_shows_part_of_what_is_written(store);
    refuses_what_is_too_long(store);
}

#[test]
fn memory_is_a_store() {
    conforms(&Memory::new());
}

#[test]
fn a_directory_is_a_store_with_a_limit_and_without() {
    for bytes_max in [None, Some(64 << 20)] {
        let place = tempfile::tempdir().unwrap();
        let store = Directory::open(place.path(), DirectoryOptions { bytes_max }).unwrap();
        conforms(&store);
        assert_eq!(
            std::fs::read_dir(place.path().join("tmp")).unwrap().count(),
            0
        );
    }
}

#[test]
fn a_store_that_passes_every_call_on_is_a_store() {
    conforms(&store::Faulty::new(Memory::new(), |_| {
        store::faulty::Turn::Pass
    }));
}

#[cfg(feature = "redis")]
#[path = "conformance/redis.rs"]
mod redis;
