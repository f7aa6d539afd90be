//! A write that fails, or whose process dies, at every step: readers find all of the old bytes or all of the new.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::super::write::Step;
use super::*;

/// More than two parts are written.
const BYTES: usize = (2 << 20) + 1;
const PLACE: &str = "FAK_STORE_CRASH_PLACE";
const STEP: &str = "FAK_STORE_CRASH_STEP";

/// Everything a write can ask of a directory: of a page, which syncs its bytes; of a bar, which syncs its name too; of a
/// lease, which syncs nothing and is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    kind: Kind,
    claims: bool,
    /// Something stands under the name before.
    over: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [Kind::Page, Kind::Barred, Kind::Lease] {
        for (claims, over) in [(false, false), (false, true), (true, false)] {
            cases.push(Case { kind, claims, over });
        }
    }
    cases
}

impl Case {
    fn name(self) -> Name {
        Name::of_text(self.kind, "the one")
    }

    fn prepare(self, path: &Path) {
        let store = opened(path, None, Seams::default());
        if self.over {
            store.put(&self.name(), &vec![1; BYTES]).unwrap();
        }
    }

    fn write(self, store: &Directory) -> Result<(), Fault> {
        let bytes = vec![2; BYTES];
        if !self.claims {
            return store.put(&self.name(), &bytes);
        }
        store
            .claim(&self.name(), &bytes)
            .map(|claimed| assert!(claimed))
    }

    /// Old or new bytes, all of them; panics on anything else.
    fn found(self, store: &Directory) -> Option<u8> {
        let bytes = read(store, &self.name())?;
        assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == bytes[0]));
        Some(bytes[0])
    }
}

/// The steps of a write, as they come.
fn steps(case: Case) -> Vec<Step> {
    let place = tempfile::tempdir().unwrap();
    case.prepare(place.path());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let seams = Seams {
        step: Box::new(move |step| {
            noted.lock().unwrap().push(step);
            Ok(())
        }),
        ..Seams::default()
    };
    case.write(&opened(place.path(), None, seams)).unwrap();
    let steps = seen.lock().unwrap();
    steps.clone()
}

/// `at` is run at the step of this number, counted from 0.
fn at_step(number: u64, at: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Seams {
    let count = AtomicU64::new(0);
    Seams {
        step: Box::new(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == number {
                return at();
            }
            Ok(())
        }),
        ..Seams::default()
    }
}

fn leftovers(store: &Directory) -> usize {
    fs::read_dir(store.temporary()).unwrap().count()
}

#[test]
fn a_kind_waits_for_what_it_cannot_lose_and_for_nothing_else() {
    use Step::{Create, Forget, Publish, Sync, SyncDirectory, Write};
    let of = |kind, claims| {
        let over = false;
        let mut steps = steps(Case { kind, claims, over });
        steps.retain(|step| *step != Write);
        steps
    };
    assert_eq!(of(Kind::Page, false), [Create, Sync, Publish]);
    assert_eq!(
        of(Kind::Session, false),
        [Create, Sync, Publish, SyncDirectory]
    );
    assert_eq!(
        of(Kind::Barred, false),
        [Create, Sync, Publish, SyncDirectory]
    );
    assert_eq!(of(Kind::Lease, true), [Create, Publish, Forget]);
    assert_eq!(of(Kind::Worker, false), [Create, Publish]);
}

#[test]
fn an_error_at_any_step_leaves_the_old_bytes_and_nothing_under_tmp() {
    for case in cases() {
        for (number, step) in steps(case).into_iter().enumerate() {
            for code in [libc::ENOSPC, libc::EIO] {
                let place = tempfile::tempdir().unwrap();
                case.prepare(place.path());
                let fails = move || Err(io::Error::from_raw_os_error(code));
                let store = opened(place.path(), None, at_step(number as u64, fails));
                case.write(&store).unwrap_err();
                // After the file has its name there is no way back; the fault says that it may not be there for good.
                let named = matches!(step, Step::SyncDirectory | Step::Forget);
                let expected = if named {
                    Some(2)
                } else {
                    case.over.then_some(1)
                };
                assert_eq!(case.found(&store), expected, "{case:?} {step:?}");
                assert_eq!(leftovers(&store), 0, "{case:?} {step:?}");
                if !named {
                    case.write(&store).unwrap(); // and it can be tried again
                }
            }
        }
    }
}

/// Not a test of its own: the process that dies in the next test.
#[test]
fn child_that_dies() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    let told = std::env::var(STEP).unwrap();
    let numbers: Vec<usize> = told.split(' ').map(|text| text.parse().unwrap()).collect();
    let killed = || -> io::Result<()> {
        // As `kill -9` from outside: nothing of ours runs any more.
        Command::new("sh").args(["-c", "kill -9 $PPID"]).status()?;
        loop {
            std::thread::park();
        }
    };
    let store = opened(Path::new(&place), None, at_step(numbers[1] as u64, killed));
    let _ = cases()[numbers[0]].write(&store);
}

#[test]
fn a_process_killed_at_any_step_leaves_all_old_or_all_new_bytes_and_reopening_cleans_up() {
    let this = std::env::current_exe().unwrap();
    for (index, case) in cases().into_iter().enumerate() {
        for (number, step) in steps(case).into_iter().enumerate() {
            let place = tempfile::tempdir().unwrap();
            case.prepare(place.path());
            let child = Command::new(&this)
                .args(["--exact", "directory::tests::crashes::child_that_dies"])
                .env(PLACE, place.path())
                .env(STEP, format!("{index} {number}"))
                .output()
                .unwrap();
            assert_eq!(child.status.signal(), Some(9), "{child:?}");

            let clock = Clock::default();
            let age = SystemTime::now().duration_since((clock.seams().now)());
            clock.pass(age.unwrap().as_millis() as u64);
            let store = opened(place.path(), None, clock.seams());
            let named = matches!(step, Step::SyncDirectory | Step::Forget);
            let expected = if named {
                Some(2)
            } else {
                case.over.then_some(1)
            };
            assert_eq!(case.found(&store), expected, "{case:?} {step:?}");
            let forgotten = !matches!(step, Step::Create | Step::SyncDirectory);
            assert_eq!(
                leftovers(&store),
                usize::from(forgotten),
                "{case:?} {step:?}"
            );

            clock.pass(2 * 3600 * 1000);
            let store = opened(place.path(), None, clock.seams());
            assert_eq!(leftovers(&store), 0, "{case:?} {step:?}");
            assert_eq!(case.found(&store), expected, "{case:?} {step:?}");
            if !(case.claims && named) {
                case.write(&store).unwrap();
            }
        }
    }
}
