//! What a directory does that no other store does: files, links, leftovers, times of use. Not here: what every store does
//! (`tests/conformance.rs`).

mod capacity;
mod crashes;

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn page(text: &str) -> Name {
    Name::of_text(Kind::Page, text)
}

fn read(store: &Directory, name: &Name) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get(name, &mut bytes).unwrap().then_some(bytes)
}

/// A clock that a test sets, in milliseconds after one moment.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    fn seams(&self) -> Seams {
        let ms = self.0.clone();
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Seams {
            now: Box::new(move || start + Duration::from_millis(ms.load(Ordering::Relaxed))),
            ..Seams::default()
        }
    }
}

fn opened(path: &Path, bytes_max: Option<u64>, seams: Seams) -> Directory {
    Directory::open_with(path, DirectoryOptions { bytes_max }, seams).unwrap()
}

#[test]
fn what_is_no_file_under_a_name_is_a_fault_and_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let store = Directory::open(place.path(), DirectoryOptions::default()).unwrap();
    let secret = place.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let (link, folder, pipe) = (page("link"), page("folder"), page("pipe"));
    symlink(&secret, store.path(&link)).unwrap();
    fs::create_dir(store.path(&folder)).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(store.path(&pipe))
        .status();
    assert!(made.unwrap().success());

    for name in [link, folder, pipe] {
        let mut bytes = b"before".to_vec();
        store.get(&name, &mut bytes).unwrap_err();
        assert_eq!(bytes, b"before");
        assert!(!store.claim(&name, b"claimed").unwrap());
    }
    assert_eq!(store.list(Kind::Page).unwrap().len(), 3);
    assert!(
        store
            .list(Kind::Page)
            .unwrap()
            .iter()
            .all(|entry| entry.bytes.is_none())
    );
    store.put(&link, b"page").unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(read(&store, &link).unwrap(), b"page");
    store.remove(&folder).unwrap_err();
    store.remove(&pipe).unwrap();
}

#[test]
fn a_listing_leaves_out_what_is_no_name() {
    let place = tempfile::tempdir().unwrap();
    let store = Directory::open(place.path(), DirectoryOptions::default()).unwrap();
    store.put(&page("a"), b"a").unwrap();
    for name in ["README", ".hidden", &"A".repeat(64)] {
        fs::write(store.of_kind(Kind::Page).join(name), "other").unwrap();
    }
    let listed = store.list(Kind::Page).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].name, listed[0].bytes), (page("a"), Some(1)));
}

#[test]
fn a_directory_that_is_gone_is_a_fault_when_listed_and_when_written() {
    let place = tempfile::tempdir().unwrap();
    let store = Directory::open(place.path(), DirectoryOptions::default()).unwrap();
    fs::remove_dir_all(place.path()).unwrap();
    store.list(Kind::Barred).unwrap_err();
    store.put(&page("a"), b"a").unwrap_err();
    store.claim(&page("a"), b"a").unwrap_err();
}

#[test]
fn a_kind_that_is_a_link_elsewhere_is_not_opened() {
    let place = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), place.path().join("page")).unwrap();
    let fault = Directory::open(place.path(), DirectoryOptions::default()).unwrap_err();
    assert!(fault.what.contains("no directory"), "{fault}");
}

#[test]
fn a_file_that_says_it_is_huge_is_a_fault_before_anything_is_read() {
    let place = tempfile::tempdir().unwrap();
    let store = Directory::open(place.path(), DirectoryOptions::default()).unwrap();
    let file = File::create(store.path(&page("a"))).unwrap();
    file.set_len(1 << 40).unwrap(); // sparse
    let mut bytes = Vec::new();
    let fault = store.get(&page("a"), &mut bytes).unwrap_err();
    assert!(fault.what.contains("more than"), "{fault}");
    assert_eq!(bytes.capacity(), 0);
}

#[test]
fn leftovers_go_when_they_are_an_hour_old_and_no_sooner() {
    let place = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let store = opened(place.path(), None, clock.seams());
    let names = ["old", "new", "future"].map(|name| store.temporary().join(name));
    for (name, minutes) in names.iter().zip([0, 10, 200]) {
        let file = File::create(name).unwrap();
        let at = (store.seams.now)() + Duration::from_secs(60 * minutes);
        file.set_modified(at).unwrap();
    }
    fs::create_dir(store.temporary().join("folder")).unwrap();
    clock.pass(65 * 60 * 1000);
    opened(place.path(), None, clock.seams());
    assert_eq!(names.map(|name| name.exists()), [false, true, true]);
    assert!(store.temporary().join("folder").exists());
}

#[test]
fn reading_a_page_notes_its_use_once_in_some_seconds_and_reading_others_never() {
    let place = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let store = opened(place.path(), None, clock.seams());
    let session = Name::of_text(Kind::Session, "a");
    store.put(&page("a"), b"a").unwrap();
    store.put(&session, b"a").unwrap();
    let used = |kind| store.list(kind).unwrap()[0].used_ms.unwrap();
    let (first, written) = (used(Kind::Page), used(Kind::Session));
    for (pass_ms, later_ms) in [(9_999, 0), (1, 10_000), (5_000, 10_000), (5_000, 20_000)] {
        clock.pass(pass_ms);
        read(&store, &page("a")).unwrap();
        read(&store, &session).unwrap();
        assert_eq!(used(Kind::Page) - first, later_ms);
    }
    assert_eq!(used(Kind::Session), written);
}

#[test]
fn what_it_makes_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("deep/store");
    let store = Directory::open(&path, DirectoryOptions::default()).unwrap();
    for made in [path, store.of_kind(Kind::Session), store.temporary()] {
        let mode = fs::metadata(made).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
