//! The thread that finds pages, waits for those that another worker is computing, and keeps our own leases alive.
//!
//! Nothing is given out before it is known what is barred: a store that cannot say that is a store without pages. A page
//! counts only if all before it have come. Not here: whether pages are those of the text (the engine compares ids).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use engine::{CheckedPage, PAGE_POSITIONS, PageKey};

use crate::barred::{Barred, NotOurs};
use crate::keeper::{Common, Fetch, Reply, Trouble};
use crate::lease::{self, Claim, Lease};
use crate::object::{Fault, Kind, Name};
use crate::sealed::Sealed;

/// How long to wait before looking again for a page that another computes: at first, and at most.
const LOOK_AGAIN_MS: (u64, u64) = (2, 50);

/// A question that is not answered yet.
struct Open {
    fetch: Fetch,
    pages: Vec<CheckedPage>,
    /// Somebody else computes the next page: when to look again, and after how long from then.
    again: Option<(u64, u64)>,
}

/// The thread.
pub(crate) struct Fetcher {
    common: Arc<Common>,
    jobs: Receiver<Fetch>,
    open: Vec<Open>,
    /// Names of barred texts that were told.
    told: HashSet<Name>,
    /// When it was last asked what is barred, and when leases were last renewed.
    barred_ms: u64,
    renewed_ms: u64,
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

impl Fetcher {
    pub(crate) fn new(common: Arc<Common>, jobs: Receiver<Fetch>) -> Self {
        Self {
            common,
            jobs,
            open: Vec::new(),
            told: HashSet::new(),
            barred_ms: 0,
            renewed_ms: 0,
        }
    }

    /// Works until nobody can ask any more.
    pub(crate) fn run(mut self) {
        loop {
            match self.jobs.recv_timeout(self.idle()) {
                Ok(fetch) => {
                    self.common.answered();
                    self.open.push(Open {
                        fetch,
                        pages: Vec::new(),
                        again: None,
                    });
                }
                Err(RecvTimeoutError::Timeout) => self.common.answered(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.renew();
            let now = self.common.now_ms();
            let due = |open: &Open| open.again.is_none_or(|(at, _)| at <= now);
            let (due, later) = std::mem::take(&mut self.open).into_iter().partition(due);
            self.open = later;
            for open in due {
                self.advance(open);
            }
            if self.common.now_ms() >= self.barred_ms + self.common.options.barred_every_ms {
                let _ = self.learn_barred(); // whoever wants a page asks again and hears of it
            }
        }
    }

    /// How long there is nothing to do but to wait for a question.
    fn idle(&self) -> Duration {
        let now = self.common.now_ms();
        let options = &self.common.options;
        let mut next = self.barred_ms + options.barred_every_ms;
        if !self.common.leases().is_empty() {
            next = next.min(self.renewed_ms + options.lease_ms / 3);
        }
        let again = self.open.iter().filter_map(|open| Some(open.again?.0));
        let next = again.min().map_or(next, |again| next.min(again));
        Duration::from_millis(next.saturating_sub(now))
    }

    /// Says that we live, a few times in the length of a lease.
    fn renew(&mut self) {
        let now = self.common.now_ms();
        let length = self.common.options.lease_ms;
        if now < self.renewed_ms + length / 3 {
            return;
        }
        self.renewed_ms = now;
        let leases = self.common.leases(); // locked, so that none comes back that is given up meanwhile
        for lease in &*leases {
            let _ = lease.renew(&*self.common.store, now + length); // if it runs out, another computes the page
            self.common.answered();
        }
    }

    /// Takes a question as far as it goes now.
    fn advance(&mut self, mut open: Open) {
        let outcome = if open.fetch.session.is_some() {
            self.session(&mut open).map(Some)
        } else {
            self.pages(&mut open)
        };
        self.common.answered();
        let request = open.fetch.request;
        let reply = match outcome {
            Ok(None) => {
                let (first, most) = LOOK_AGAIN_MS;
                let wait = open
                    .again
                    .map_or(first, |(_, wait)| (wait * 3 / 2).min(most));
                open.again = Some((self.common.now_ms() + wait, wait));
                return self.open.push(open);
            }
            Ok(Some(reply)) => reply,
            Err(trouble) if open.fetch.session.is_some() => Reply::Resumed {
                request,
                session: None,
                pages: Vec::new(),
                trouble: Some(trouble),
            },
            Err(trouble) => Reply::Fetched {
                request,
                pages: open.pages,
                lease: None,
                trouble: Some(trouble),
            },
        };
        self.common.reply(reply);
    }

    /// Pages one after the other, until one is missing that nobody computes; none while somebody does.
    fn pages(&mut self, open: &mut Open) -> Result<Option<Reply>, Trouble> {
        self.learn_barred()?;
        let mut lease: Option<Lease> = None;
        loop {
            let trouble = self.find(&open.fetch.keys, &mut open.pages)?;
            let missing = open.fetch.keys.get(open.pages.len()).copied();
            let ours = lease.as_ref().map(Lease::key);
            let waits = match missing {
                Some(key) if ours != Some(key) => {
                    self.give_up(lease.take())?;
                    match self.claim(key)? {
                        Claim::Ours(claimed) => {
                            lease = Some(claimed);
                            continue; // whoever had it before may just have kept the page
                        }
                        Claim::Held(_) => trouble.is_none(),
                    }
                }
                Some(_) => false,
                None => {
                    self.give_up(lease.take())?;
                    false
                }
            };
            if waits {
                return Ok(None);
            }
            self.common.leases().extend(lease.clone());
            return Ok(Some(Reply::Fetched {
                request: open.fetch.request,
                pages: std::mem::take(&mut open.pages),
                lease,
                trouble,
            }));
        }
    }

    fn claim(&self, key: PageKey) -> Result<Claim, Trouble> {
        let options = &self.common.options;
        let time = (self.common.now_ms(), options.lease_ms);
        let claimed = lease::claim(&*self.common.store, key, &options.name, time)?;
        self.common.answered();
        Ok(claimed)
    }

    fn give_up(&self, lease: Option<Lease>) -> Result<(), Trouble> {
        lease.map_or(Ok(()), |lease| Ok(lease.release(&*self.common.store)?))
    }

    /// Appends those pages of `keys` that follow `pages`, up to the first that is missing, or is not what it should be.
    fn find(
        &self,
        keys: &[PageKey],
        pages: &mut Vec<CheckedPage>,
    ) -> Result<Option<Trouble>, Trouble> {
        for key in &keys[pages.len()..] {
            let name = Name::new(Kind::Page, *key.bytes());
            let mut bytes = Vec::new();
            let there = self.common.store.get(&name, &mut bytes)?;
            self.common.answered();
            if !there {
                self.common.stored().remove(key);
                return Ok(None);
            }
            match CheckedPage::read(bytes, self.common.layout) {
                Ok(page) => pages.push(page),
                Err(fault) => {
                    // Whoever computes it keeps it anew.
                    self.common.stored().remove(key);
                    return Ok(Some(Trouble::Refused(format!("{name}: {fault}"))));
                }
            }
            self.common.stored().insert(*key);
        }
        Ok(None)
    }

    /// The session and its pages; nothing if none of this name was put away.
    fn session(&mut self, open: &mut Open) -> Result<Reply, Trouble> {
        self.learn_barred()?;
        let request = open.fetch.request;
        let nothing = |trouble| Reply::Resumed {
            request,
            session: None,
            pages: Vec::new(),
            trouble,
        };
        let Some((tenant, name)) = &open.fetch.session else {
            return Ok(nothing(None));
        };
        let root = self.common.root;
        let place = Sealed::place(&root, tenant, name);
        let mut bytes = Vec::new();
        if !self.common.store.get(&place, &mut bytes)? {
            return Ok(nothing(None));
        }
        let refused = |why: &dyn std::fmt::Display| {
            let why = format!("{place}: {why}");
            Ok(nothing(Some(Trouble::Refused(why))))
        };
        let session = match Sealed::read(&bytes, &root) {
            Ok(session) => session,
            Err(fault) => return refused(&fault),
        };
        if session.name != *name || session.text.scope.tenant != *tenant {
            return refused(&"it is another session's");
        }
        let pages = session.text.ids.len().div_ceil(PAGE_POSITIONS);
        if session.pages.len() != pages {
            return refused(&NotOurs::Damaged);
        }
        let trouble = self.find(&session.pages, &mut open.pages)?;
        Ok(Reply::Resumed {
            request,
            session: Some(Box::new(session)),
            pages: std::mem::take(&mut open.pages),
            trouble,
        })
    }

    /// Tells the engine of texts that it has not heard of yet.
    fn learn_barred(&mut self) -> Result<(), Trouble> {
        self.barred_ms = self.common.now_ms(); // whatever comes of it: a dead store is not asked without a pause
        let listed = self.common.store.list(Kind::Barred)?;
        self.common.answered();
        let mut new = Vec::new();
        for entry in listed {
            if self.told.contains(&entry.name) {
                continue;
            }
            let mut bytes = Vec::new();
            if !self.common.store.get(&entry.name, &mut bytes)? {
                continue; // taken back by hand
            }
            self.common.answered();
            match Barred::read(&bytes, &self.common.root) {
                Ok(barred) => new.push(barred),
                Err(NotOurs::Domain) => {}
                Err(NotOurs::Damaged) => {
                    let what = format!(
                        "{}: {}; what it bars is not known",
                        entry.name,
                        NotOurs::Damaged
                    );
                    return Err(Trouble::Refused(what));
                }
            }
            self.told.insert(entry.name);
        }
        if !new.is_empty() {
            self.common.reply(Reply::Barred(new));
        }
        Ok(())
    }
}
