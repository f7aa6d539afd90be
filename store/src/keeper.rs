//! The two threads that talk to a store for an engine, so that a step never waits for one.
//!
//! One finds pages (`fetcher`), the other keeps them (`writer`): a write that hangs delays no read. The engine's thread
//! hands jobs over and takes replies when it comes by; what it may hand over has a limit in bytes. Not here: which pages a
//! request wants, and what becomes of it if they do not come (`worker`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use engine::{CheckedPage, Layout, PageCopy, PageKey};

use crate::barred::Barred;
use crate::fetcher::Fetcher;
use crate::lease::Lease;
use crate::object::Store;
use crate::sealed::Sealed;
use crate::writer::Writer;

/// Milliseconds of a clock that all workers of a store go by.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How a worker goes about its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperOptions {
    /// The worker's name, which no other worker of the store has.
    pub name: String,
    /// How long a store may take to do one thing before requests go on without it.
    pub deadline_ms: u64,
    /// How long whoever computes a page is believed to be alive without saying so.
    pub lease_ms: u64,
    /// Bytes of pages that may wait to be kept; more are not handed over.
    pub queue_bytes: usize,
    /// How often it is asked what is barred while nobody wants a page.
    pub barred_every_ms: u64,
}

impl KeeperOptions {
    /// Two seconds for one thing and for a lease, 256 MiB on their way.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            deadline_ms: 2000,
            lease_ms: 2000,
            queue_bytes: 256 << 20,
            barred_every_ms: 200,
        }
    }
}

/// What both threads know.
pub(crate) struct Common {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: KeeperOptions,
    pub(crate) clock: Clock,
    /// Of pages that may be taken in.
    pub(crate) layout: Layout,
    /// What stands for the page before the first.
    pub(crate) root: PageKey,
    /// Keys of pages that are kept, as far as known.
    stored: Mutex<HashSet<PageKey>>,
    /// Leases to be kept alive. Only the two threads lock them, since that may wait for the store.
    leases: Mutex<Vec<Lease>>,
    /// When the fetcher last got an answer from the store, or had nothing to ask.
    answered_ms: AtomicU64,
    queued_bytes: AtomicUsize,
    replies: Sender<Reply>,
}

impl Common {
    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn answered(&self) {
        self.answered_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    pub(crate) fn stored(&self) -> std::sync::MutexGuard<'_, HashSet<PageKey>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leases(&self) -> std::sync::MutexGuard<'_, Vec<Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine that is gone hears nothing.
    pub(crate) fn reply(&self, reply: Reply) {
        let _ = self.replies.send(reply);
    }

    pub(crate) fn written(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Pages that are wanted.
pub(crate) struct Fetch {
    /// The request's number.
    pub(crate) request: u64,
    /// Keys of the pages, each after the one before.
    pub(crate) keys: Vec<PageKey>,
    /// A session to bring back instead: its tenant and name.
    pub(crate) session: Option<(String, String)>,
}

/// What is to be kept.
pub(crate) enum Keep {
    /// Pages of a request's text, and leases that end once they are kept.
    Pages {
        request: u64,
        pages: Vec<PageCopy>,
        leases: Vec<Lease>,
    },
    /// A session, once its pages are.
    Session {
        session: Box<Sealed>,
        pages: Vec<PageCopy>,
    },
    /// A text everyone must refuse from now on.
    Barred(Barred),
    /// Says when all before it has been tried.
    Flushed(Sender<()>),
}

/// What the threads say.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Texts others barred.
    Barred(Vec<Barred>),
    /// As many of the pages as there are, in their order.
    Fetched {
        request: u64,
        pages: Vec<CheckedPage>,
        /// Of the first that is missing, if nobody else computes it.
        lease: Option<Lease>,
        trouble: Option<Trouble>,
    },
    /// A session that was put away, and as many of its pages as there are.
    Resumed {
        request: u64,
        session: Option<Box<Sealed>>,
        pages: Vec<CheckedPage>,
        trouble: Option<Trouble>,
    },
    /// Something was not kept.
    NotKept { request: Option<u64>, why: String },
}

/// Why there are no more pages, besides that nobody kept them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The store answered with a fault.
    Failed(String),
    /// What it gave is not what was asked for.
    Refused(String),
}

/// An engine's side of the threads.
pub(crate) struct Keeper {
    common: Arc<Common>,
    fetches: Option<Sender<Fetch>>,
    keeps: Option<Sender<Keep>>,
    replies: Receiver<Reply>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the threads; why not, if the system gives none.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        options: KeeperOptions,
        clock: Clock,
        (layout, root): (Layout, PageKey),
    ) -> std::io::Result<Self> {
        let (replies_in, replies) = channel();
        let common = Arc::new(Common {
            answered_ms: AtomicU64::new(clock()),
            store,
            options,
            clock,
            layout,
            root,
            stored: Mutex::default(),
            leases: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
            replies: replies_in,
        });
        let ((fetches, to_fetch), (keeps, to_keep)) = (channel(), channel());
        let fetcher = Fetcher::new(Arc::clone(&common), to_fetch);
        let writer = Writer::new(Arc::clone(&common), to_keep);
        let thread = |name: &str| Builder::new().name(name.to_owned());
        let threads = vec![
            thread("store-fetch").spawn(move || fetcher.run())?,
            thread("store-keep").spawn(move || writer.run())?,
        ];
        Ok(Self {
            common,
            fetches: Some(fetches),
            keeps: Some(keeps),
            replies,
            threads,
        })
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.common.now_ms()
    }

    pub(crate) fn options(&self) -> &KeeperOptions {
        &self.common.options
    }

    pub(crate) fn fetch(&self, fetch: Fetch) {
        if let Some(fetches) = &self.fetches {
            let _ = fetches.send(fetch); // a thread that died answers nothing, and requests go on late
        }
    }

    /// Hands something over to be kept.
    pub(crate) fn keep(&self, keep: Keep) {
        if let Keep::Pages { pages, .. } | Keep::Session { pages, .. } = &keep {
            let bytes = pages.iter().map(PageCopy::bytes).sum();
            self.common.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if let Some(keeps) = &self.keeps {
            let _ = keeps.send(keep);
        }
    }

    /// How many more pages of so many bytes may be handed over.
    pub(crate) fn room(&self, page_bytes: usize) -> usize {
        let queued = self.common.queued_bytes.load(Ordering::Relaxed);
        let free = self.options().queue_bytes.saturating_sub(queued);
        free / page_bytes.max(1)
    }

    /// Whether a page is known to be kept.
    pub(crate) fn is_stored(&self, key: &PageKey) -> bool {
        self.common.stored().contains(key)
    }

    /// The next reply, if there is one within so long.
    pub(crate) fn reply_within(&self, wait: Duration) -> Option<Reply> {
        if wait.is_zero() {
            return self.replies.try_recv().ok();
        }
        self.replies.recv_timeout(wait).ok()
    }

    /// Whether the store has let a question wait longer than it may, one asked at `since_ms` or a later one.
    pub(crate) fn is_late(&self, since_ms: u64) -> bool {
        let answered = self.common.answered_ms.load(Ordering::Relaxed);
        let waited = self.now_ms().saturating_sub(answered.max(since_ms));
        waited > self.options().deadline_ms
    }

    /// Waits until all that was handed over has been tried; false if that takes too long.
    pub(crate) fn flush(&self, wait: Duration) -> bool {
        let (done, when_done) = channel();
        self.keep(Keep::Flushed(done));
        when_done.recv_timeout(wait).is_ok()
    }
}

impl Drop for Keeper {
    /// Lets the threads end what they are at. One that hangs in its store is left behind: it holds nothing but its own.
    fn drop(&mut self) {
        (self.fetches, self.keeps) = (None, None);
        for thread in self.threads.drain(..) {
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}
