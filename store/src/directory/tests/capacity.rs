//! Which pages go: by a model that looks at every page each time. Not here: anything that fails on the way.

use proptest::prelude::*;

use super::*;

const BYTES_MAX: u64 = 1000;

#[derive(Clone, Debug)]
enum Act {
    Put(u8, usize),
    Claim(u8, usize),
    Get(u8),
    Remove(u8),
    /// Another process does it, which has no limit.
    Foreign(u8, usize),
    ForeignRemove(u8),
    Reopen,
}

fn acts() -> impl Strategy<Value = Vec<(Act, u64)>> {
    let (page, bytes) = (0..12_u8, 0..400_usize);
    let act = prop_oneof![
        6 => (page.clone(), bytes.clone()).prop_map(|(page, bytes)| Act::Put(page, bytes)),
        1 => (page.clone(), 900..1100_usize).prop_map(|(page, bytes)| Act::Put(page, bytes)),
        2 => (page.clone(), bytes.clone()).prop_map(|(page, bytes)| Act::Claim(page, bytes)),
        4 => page.clone().prop_map(Act::Get),
        1 => page.clone().prop_map(Act::Remove),
        1 => (page.clone(), bytes).prop_map(|(page, bytes)| Act::Foreign(page, bytes)),
        1 => page.prop_map(Act::ForeignRemove),
        1 => Just(Act::Reopen),
    ];
    // Some seconds, so that uses are noted or not; what another process does is known after ten.
    prop::collection::vec((act, 1..8_000_u64), 0..60)
}

/// Every page with its length and time of use, in the order of their coming.
#[derive(Default)]
struct Model {
    pages: Vec<(Name, u64, u64)>,
    now_ms: u64,
}

impl Model {
    fn bytes_but(&self, name: &Name) -> u64 {
        let others = self.pages.iter().filter(|page| page.0 != *name);
        others.map(|page| page.1).sum()
    }

    fn set(&mut self, name: Name, bytes: u64) {
        self.pages.retain(|page| page.0 != name);
        self.pages.push((name, bytes, self.now_ms));
    }

    fn put(&mut self, name: Name, bytes: u64) -> bool {
        if bytes > BYTES_MAX {
            return false;
        }
        if self.bytes_but(&name) + bytes > BYTES_MAX {
            let target = (BYTES_MAX - BYTES_MAX / 16).max(bytes);
            while self.bytes_but(&name) + bytes > target {
                let others = self.pages.iter().filter(|page| page.0 != name);
                let oldest = others.min_by_key(|page| (page.2, page.0)).unwrap().0;
                self.pages.retain(|page| page.0 != oldest);
            }
        }
        self.set(name, bytes);
        true
    }

    fn get(&mut self, name: &Name) {
        let now = self.now_ms;
        let found = self.pages.iter_mut().find(|page| page.0 == *name);
        if let Some(page) = found.filter(|page| now - page.2 >= 10_000) {
            page.2 = now;
        }
    }
}

fn claimed(model: &mut Model, name: Name, bytes: u64) -> Option<bool> {
    if model.pages.iter().any(|page| page.0 == name) {
        return Some(false);
    }
    model.put(name, bytes).then_some(true)
}

fn check(acts: Vec<(Act, u64)>) {
    let place = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    let open = || opened(place.path(), Some(BYTES_MAX), clock.seams());
    let foreign = opened(place.path(), None, clock.seams());
    let session = Name::of_text(Kind::Session, "kept");
    foreign.put(&session, &[7; 5000]).unwrap();
    let (mut store, mut model) = (open(), Model::default());
    for (act, pass_ms) in acts {
        clock.pass(pass_ms);
        model.now_ms += pass_ms;
        let name = |number: u8| page(&number.to_string());
        match act {
            Act::Put(number, bytes) => {
                let put = store.put(&name(number), &vec![number; bytes]).is_ok();
                assert_eq!(put, model.put(name(number), bytes as u64));
            }
            Act::Claim(number, bytes) => {
                let claim = store.claim(&name(number), &vec![number; bytes]).ok();
                assert_eq!(claim, claimed(&mut model, name(number), bytes as u64));
            }
            Act::Get(number) => {
                let found = read(&store, &name(number)).map(|bytes| bytes.len() as u64);
                let modelled = model.pages.iter().find(|page| page.0 == name(number));
                assert_eq!(found, modelled.map(|page| page.1));
                model.get(&name(number));
            }
            Act::Remove(number) => {
                store.remove(&name(number)).unwrap();
                model.pages.retain(|page| page.0 != name(number));
            }
            Act::Foreign(number, bytes) => {
                foreign.put(&name(number), &vec![number; bytes]).unwrap();
                model.set(name(number), bytes as u64);
                clock.pass(10_000);
                model.now_ms += 10_000;
            }
            Act::ForeignRemove(number) => {
                foreign.remove(&name(number)).unwrap();
                model.pages.retain(|page| page.0 != name(number));
                clock.pass(10_000);
                model.now_ms += 10_000;
            }
            Act::Reopen => store = open(),
        }
        let mut there: Vec<_> = store.list(Kind::Page).unwrap();
        there.sort_by_key(|entry| entry.name);
        let mut modelled = model.pages.clone();
        modelled.sort_unstable();
        let there: Vec<_> = there
            .iter()
            .map(|entry| (entry.name, entry.bytes.unwrap()))
            .collect();
        let modelled: Vec<_> = modelled.iter().map(|page| (page.0, page.1)).collect();
        assert_eq!(there, modelled);
    }
    assert_eq!(read(&store, &session).unwrap().len(), 5000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_pages_that_stay_are_those_a_model_keeps(acts in acts()) {
        check(acts);
    }
}

#[test]
fn several_who_evict_at_once_stay_within_the_limit_and_never_fail() {
    let place = tempfile::tempdir().unwrap();
    let stores = [(); 3].map(|()| opened(place.path(), Some(BYTES_MAX), Seams::default()));
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..100 {
                    let name = page(&format!("{number} {round}"));
                    store.put(&name, &[7; 100]).unwrap();
                }
            });
        }
    });
    // Each saw the others' pages whenever it had to list, and at most what fits was written by each since.
    let bytes = |entries: &[Entry]| -> u64 { entries.iter().filter_map(|e| e.bytes).sum() };
    assert!(bytes(&stores[0].list(Kind::Page).unwrap()) <= 3 * BYTES_MAX);
    let fresh = opened(place.path(), Some(BYTES_MAX), Seams::default());
    fresh.put(&page("last"), &[7; 100]).unwrap();
    assert!(bytes(&fresh.list(Kind::Page).unwrap()) <= BYTES_MAX);
}

#[test]
fn threads_that_write_at_once_leave_no_more_than_the_limit() {
    let place = tempfile::tempdir().unwrap();
    let store = opened(place.path(), Some(BYTES_MAX), Seams::default());
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = page(&format!("{number} {round}"));
                    store.put(&name, &[7; 90]).unwrap();
                }
            });
        }
    });
    let listed = store.list(Kind::Page).unwrap();
    let bytes: u64 = listed.iter().filter_map(|entry| entry.bytes).sum();
    assert!(bytes <= BYTES_MAX, "{bytes}");
}

#[test]
fn a_write_that_failed_gives_its_room_back() {
    let place = tempfile::tempdir().unwrap();
    let mut seams = Clock::default().seams();
    seams.step = Box::new(|step| match step {
        write::Step::Sync => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        _ => Ok(()),
    });
    let store = opened(place.path(), Some(BYTES_MAX), seams);
    for number in 0..20 {
        let fault = store
            .put(&page(&number.to_string()), &[7; 900])
            .unwrap_err();
        assert!(fault.what.contains("No space left"), "{fault}");
    }
    let capacity = store.capacity.as_ref().unwrap();
    drop(capacity.make_room(&store, &page("a"), BYTES_MAX).unwrap());
}
