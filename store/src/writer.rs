//! The thread that keeps pages, sessions and barred texts, and says which pages its worker has.
//!
//! A page is signed here, not in the engine's thread. Pages of a text go in order, a session only once all its pages are
//! kept. Texts to be barred are tried until they are: losing one would let a page back in. Not here: how a store writes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use engine::{PageCopy, PageKey};

use crate::announced::Announced;
use crate::barred::Barred;
use crate::keeper::{Common, Keep, Reply};
use crate::object::{Fault, Kind, Name};
use crate::sealed::Sealed;

/// How often others are told which pages we have, at most.
const ANNOUNCE_MS: u64 = 500;
/// How long after a failure a text is tried again to be barred.
const TRY_AGAIN_MS: u64 = 250;

/// The thread.
pub(crate) struct Writer {
    common: Arc<Common>,
    jobs: Receiver<Keep>,
    /// Texts that are not barred for everyone yet.
    untold: VecDeque<Barred>,
    tried_ms: u64,
    /// Pages we keep, in the order they were kept, and how many of them were announced.
    pages: Vec<PageKey>,
    announced: usize,
    announced_ms: u64,
}

impl Writer {
    pub(crate) fn new(common: Arc<Common>, jobs: Receiver<Keep>) -> Self {
        Self {
            common,
            jobs,
            untold: VecDeque::new(),
            tried_ms: 0,
            pages: Vec::new(),
            announced: 0,
            announced_ms: 0,
        }
    }

    /// Works until nobody hands anything over any more, and all of it has been tried.
    pub(crate) fn run(mut self) {
        loop {
            match self.jobs.recv_timeout(self.idle()) {
                Ok(keep) => self.keep(keep),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.common.now_ms();
            if now >= self.tried_ms + TRY_AGAIN_MS {
                self.tell();
            }
            if now >= self.announced_ms + ANNOUNCE_MS {
                self.announce();
            }
        }
        self.tell();
        self.announce();
        for lease in self.common.leases().drain(..) {
            let _ = lease.release(&*self.common.store); // it runs out
        }
    }

    fn idle(&self) -> Duration {
        let now = self.common.now_ms();
        let untold = (!self.untold.is_empty()).then_some(self.tried_ms + TRY_AGAIN_MS);
        let behind = self.announced < self.pages.len();
        let announce = behind.then_some(self.announced_ms + ANNOUNCE_MS);
        let next = untold.into_iter().chain(announce).min();
        next.map_or(Duration::from_secs(3600), |at| {
            Duration::from_millis(at.saturating_sub(now))
        })
    }

    fn keep(&mut self, keep: Keep) {
        match keep {
            Keep::Pages {
                request,
                pages,
                leases,
            } => {
                let kept = self.pages(pages);
                self.not_kept(Some(request), kept);
                for lease in leases {
                    self.common.leases().retain(|held| *held != lease);
                    let released = lease.release(&*self.common.store);
                    self.not_kept(Some(request), released);
                }
            }
            Keep::Session { session, pages } => {
                let kept = self.pages(pages).and_then(|()| self.session(&session));
                self.not_kept(None, kept);
            }
            Keep::Barred(barred) => {
                self.untold.push_back(barred);
                self.tell();
            }
            Keep::Flushed(done) => {
                self.tell();
                self.announce();
                let _ = done.send(()); // whoever asked may have gone
            }
        }
    }

    fn not_kept(&self, request: Option<u64>, kept: Result<(), Fault>) {
        if let Err(fault) = kept {
            let why = fault.to_string();
            self.common.reply(Reply::NotKept { request, why });
        }
    }

    /// Keeps pages, each after the one before; none after one that could not be.
    fn pages(&mut self, pages: Vec<PageCopy>) -> Result<(), Fault> {
        let mut kept = Ok(());
        for page in pages {
            let (key, bytes) = (page.key(), page.bytes());
            let new = kept.is_ok() && !self.common.stored().contains(&key);
            if new {
                let name = Name::new(Kind::Page, *key.bytes());
                kept = self.common.store.put(&name, &page.image());
                if kept.is_ok() {
                    self.common.stored().insert(key);
                    self.pages.push(key);
                }
            }
            self.common.written(bytes);
        }
        kept
    }

    fn session(&self, session: &Sealed) -> Result<(), Fault> {
        let root = &self.common.root;
        let place = Sealed::place(root, &session.text.scope.tenant, &session.name);
        self.common.store.put(&place, &session.write(root))
    }

    /// Bars texts for everyone, the first first.
    fn tell(&mut self) {
        self.tried_ms = self.common.now_ms();
        while let Some(barred) = self.untold.front() {
            if let Err(fault) = barred.tell(&*self.common.store, &self.common.root) {
                self.not_kept(None, Err(fault));
                return;
            }
            self.untold.pop_front();
        }
    }

    /// Says which pages we keep, if there are new ones.
    fn announce(&mut self) {
        self.announced_ms = self.common.now_ms();
        if self.announced == self.pages.len() {
            return;
        }
        let announced = Announced {
            worker: self.common.options.name.clone(),
            at_ms: self.announced_ms,
            pages: self.pages.clone(),
        };
        if announced
            .tell(&*self.common.store, &self.common.root)
            .is_ok()
        {
            self.announced = self.pages.len(); // else the next one says it
        }
    }
}
