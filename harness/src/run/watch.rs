//! A process that must keep talking: one that says nothing for too long is ended, so that a run always ends.
//!
//! Its input stays open for as long as anyone waits for it. The end of it comes before the end of the process, and also
//! when this program is gone, so that an arm can end what it has started itself (`run::arm`). Not here: what it says
//! (`process`), or the limit of other programs, which the envelope sets.

use std::io;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often an exit is looked for once the process has said its last.
const POLL: Duration = Duration::from_millis(1);
/// For ending what it has started, once its input has ended.
const PARTING: Duration = Duration::from_secs(3);

/// A child and the thread that ends it if it falls silent.
pub(super) struct Watched {
    child: Arc<Mutex<Child>>,
    heard: Arc<AtomicU64>,
    done: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl Watched {
    /// Watches `child` from now on; it is ended after between one and two `silence_max` without a word.
    pub(super) fn new(child: Child, silence_max: Duration) -> Self {
        let child = Arc::new(Mutex::new(child));
        let heard = Arc::new(AtomicU64::new(0));
        let (done, is_done) = mpsc::channel();
        let (watched, words) = (Arc::clone(&child), Arc::clone(&heard));
        let watcher = thread::spawn(move || {
            loop {
                let before = words.load(Ordering::Relaxed);
                match is_done.recv_timeout(silence_max) {
                    Err(RecvTimeoutError::Timeout) if words.load(Ordering::Relaxed) == before => {
                        end(&watched);
                        return true;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
                }
            }
        });
        Self {
            child,
            heard,
            done,
            watcher,
        }
    }

    /// It said something.
    pub(super) fn heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps its input open from now on.
    pub(super) fn keep(&self, input: Option<ChildStdin>) {
        locked(&self.child).stdin = input;
    }

    /// Ends it.
    pub(super) fn end(&self) {
        end(&self.child);
    }

    /// Waits until it is gone, under watch; says whether silence ended it.
    pub(super) fn wait(self) -> io::Result<(ExitStatus, bool)> {
        let status = loop {
            // Locked for a moment only, so that the watcher can still end it.
            if let Some(status) = locked(&self.child).try_wait()? {
                break status;
            }
            thread::sleep(POLL);
        };
        let _ = self.done.send(()); // a watcher that has already ended it no longer listens
        Ok((status, self.watcher.join().unwrap_or(false)))
    }
}

/// Ends its input, and then the process itself unless that was enough.
fn end(child: &Mutex<Child>) {
    drop(locked(child).stdin.take());
    let start = Instant::now();
    while start.elapsed() < PARTING && matches!(locked(child).try_wait(), Ok(None)) {
        thread::sleep(POLL);
    }
    let _ = locked(child).kill(); // it may have ended by itself
}

fn locked(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
