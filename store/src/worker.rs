//! An engine with a store behind it: requests wait for pages that are kept or coming, and what is computed is kept.
//!
//! One way: submit, ask the store, take in what came, hand to the engine, step, keep what it computed. A request waits for
//! the store no longer than its deadline, and nobody else waits with it. Not here: threads (`keeper`), what an engine does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    CheckedPage, Engine, Error, Imported, OnQuarantine, PAGE_POSITIONS, PageKey, Quarantined,
    Request, Scope, SessionText,
};

use crate::barred::Barred;
use crate::keeper::{Clock, Fetch, Keep, Keeper, KeeperOptions, Reply, Trouble};
use crate::lease::Lease;
use crate::object::Store;
use crate::open::{Heard, Open};
use crate::sealed::Sealed;
use crate::told::{What, WorkerSink, tell, tell_late};

/// How long a step waits for the store where there is nothing else to do.
const NOTHING_ELSE: Duration = Duration::from_millis(5);

/// A request that waits for pages.
struct Waiting {
    request: Request,
    since_ms: u64,
    /// Key of the first page it misses; others that miss the same wait for what comes of this one.
    missing: Option<PageKey>,
    /// Whether it has asked itself.
    asked: bool,
}

/// An engine and its store.
pub struct Worker {
    engine: Engine,
    keeper: Keeper,
    /// By request.
    waiting: BTreeMap<u64, Waiting>,
    open: HashMap<u64, Open>,
}

impl Worker {
    /// Puts a store behind an engine; the error is the engine's or the system's.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        options: KeeperOptions,
        clock: Clock,
    ) -> Result<Self, Error> {
        let pages = (engine.layout(), engine.root_key()?);
        let keeper = Keeper::start(store, options, clock, pages)
            .map_err(|source| Error::Threads { threads: 2, source })?;
        Ok(Self {
            engine,
            keeper,
            waiting: BTreeMap::new(),
            open: HashMap::new(),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, without its store.
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// Takes a request. If `session` names one that was put away and the engine does not know the request's session, that
    /// one is brought back first.
    pub fn submit(
        &mut self,
        request: Request,
        session: Option<&str>,
        sink: &mut dyn WorkerSink,
    ) -> Result<(), Error> {
        self.engine.check_request(&request)?;
        let mut others = self.waiting.values().map(|waiting| &waiting.request);
        if self.waiting.contains_key(&request.id) {
            return Err(Error::DuplicateRequest(request.id));
        }
        if others.any(|other| other.session == request.session) {
            return Err(Error::SessionBusy(request.session));
        }
        if let Some(name) = session.filter(|_| self.engine.session_text(request.session).is_err()) {
            let named = (request.scope.tenant.clone(), name.to_owned());
            self.ask(request, (Vec::new(), Some(named)));
            return Ok(());
        }
        self.consider(request, sink)
    }

    /// Hands a request to the engine, or has it wait for pages that it lacks and others may have.
    fn consider(&mut self, request: Request, sink: &mut dyn WorkerSink) -> Result<(), Error> {
        let missing = self.missing(&request)?;
        let Some(first) = missing.first().copied() else {
            return self.pass(request);
        };
        let leads = |open: &Open| open.leases.iter().any(|lease| lease.key() == first);
        if self.open.values().any(leads) {
            return self.pass(request); // the engine has it wait for the one that computes the page
        }
        let since_ms = self.keeper.now_ms();
        if self.keeper.is_late(0) {
            tell_late(request.id, sink);
            return self.pass(request);
        }
        let same = |waiting: &Waiting| waiting.asked && waiting.missing == Some(first);
        if self.waiting.values().any(same) {
            let waiting = Waiting {
                since_ms,
                missing: Some(first),
                asked: false,
                request,
            };
            self.waiting.insert(waiting.request.id, waiting);
            return Ok(());
        }
        self.ask(request, (missing, None));
        Ok(())
    }

    /// Keys of the whole pages of a prompt that may be found and are not cached.
    fn missing(&self, request: &Request) -> Result<Vec<PageKey>, Error> {
        let (scope, prompt) = (&request.scope, &request.prompt);
        let findable = self.engine.findable(scope, prompt);
        let cached = self.engine.cached(scope, prompt);
        let whole = &prompt[..findable / PAGE_POSITIONS * PAGE_POSITIONS];
        if cached >= whole.len() {
            return Ok(Vec::new());
        }
        let keys = self.engine.page_keys(scope, whole)?;
        Ok(keys.into_iter().skip(cached / PAGE_POSITIONS).collect())
    }

    fn ask(&mut self, request: Request, wanted: (Vec<PageKey>, Option<(String, String)>)) {
        let (keys, session) = wanted;
        let waiting = Waiting {
            since_ms: self.keeper.now_ms(),
            missing: keys.first().copied(),
            asked: true,
            request,
        };
        let request = waiting.request.id;
        self.waiting.insert(request, waiting);
        self.keeper.fetch(Fetch {
            request,
            keys,
            session,
        });
    }

    /// Hands a request to the engine.
    fn pass(&mut self, request: Request) -> Result<(), Error> {
        let open = Open {
            scope: request.scope.clone(),
            text: request.prompt.clone(),
            leases: Vec::new(),
        };
        let id = request.id;
        self.engine.submit(request)?;
        self.open.insert(id, open);
        Ok(())
    }

    /// Does one step's work; false when nothing was left to do. Never waits for the store while the engine has work.
    pub fn step(&mut self, sink: &mut dyn WorkerSink) -> Result<bool, Error> {
        let idle = self.open.is_empty() && !self.waiting.is_empty();
        let mut wait = if idle { NOTHING_ELSE } else { Duration::ZERO };
        while let Some(reply) = self.keeper.reply_within(wait) {
            wait = Duration::ZERO;
            self.replied(reply, sink)?;
        }
        self.late(sink)?;
        self.reconsider(sink)?;
        let mut heard = Heard {
            sink: &mut *sink,
            open: &mut self.open,
            computed: Vec::new(),
        };
        let worked = self.engine.step(&mut heard)?;
        for (request, finished) in heard.computed {
            self.publish(request, finished, sink)?;
        }
        Ok(worked || !self.waiting.is_empty())
    }

    fn replied(&mut self, reply: Reply, sink: &mut dyn WorkerSink) -> Result<(), Error> {
        match reply {
            Reply::Barred(texts) => {
                for Barred { scope, ids, start } in texts {
                    let finish = OnQuarantine::Finish;
                    self.engine.quarantine(&scope, &ids, start, finish)?;
                }
                Ok(())
            }
            Reply::Fetched {
                request,
                pages,
                lease,
                trouble,
            } => self.fetched(request, &pages, (lease, trouble), sink),
            Reply::Resumed {
                request,
                session,
                pages,
                trouble,
            } => self.resumed(request, session, &pages, trouble, sink),
            Reply::NotKept { request, why } => {
                let what = What::Failed(why);
                tell(sink, request, what, 0);
                Ok(())
            }
        }
    }

    fn fetched(
        &mut self,
        id: u64,
        pages: &[CheckedPage],
        (lease, trouble): (Option<Lease>, Option<Trouble>),
        sink: &mut dyn WorkerSink,
    ) -> Result<(), Error> {
        let Some(waiting) = self.waiting.remove(&id) else {
            // It went on without, or was cancelled.
            self.give_up(id, lease);
            return Ok(());
        };
        let mut request = waiting.request;
        if !pages.is_empty() {
            let before = self.engine.cached(&request.scope, &request.prompt);
            match self.take_in(&request, waiting.missing, pages) {
                Ok(len) => {
                    request.restored = len.saturating_sub(before);
                    tell(sink, Some(id), What::Restored, len);
                }
                Err(error) => tell(sink, Some(id), What::Refused(error.to_string()), 0),
            }
        }
        if let Some(trouble) = trouble {
            tell(sink, Some(id), trouble.into(), 0);
        }
        if lease.as_ref().is_some_and(|lease| lease.took_over) {
            tell(sink, Some(id), What::TookOver, 0);
        }
        let passed = self.pass(request);
        match (lease, self.open.get_mut(&id)) {
            (Some(lease), Some(open)) => open.leases.push(lease),
            (lease, _) => self.give_up(id, lease),
        }
        passed
    }

    /// The pages of a prompt from the one it missed first on; how many positions it finds then.
    fn take_in(
        &mut self,
        request: &Request,
        missing: Option<PageKey>,
        pages: &[CheckedPage],
    ) -> Result<usize, Error> {
        let (scope, prompt) = (&request.scope, &request.prompt);
        let keys = self.engine.page_keys(scope, prompt)?;
        let from = keys.iter().position(|key| Some(*key) == missing);
        let from = from.unwrap_or(0);
        // What was barred meanwhile stays out, the rest comes in.
        let findable = self.engine.findable(scope, prompt) / PAGE_POSITIONS;
        let end = (from + pages.len()).min(findable);
        let pages = &pages[..end.saturating_sub(from)];
        let ids = &prompt[..end.max(from) * PAGE_POSITIONS];
        self.engine.take_in(scope, ids, from, pages)?;
        Ok(self.engine.cached(scope, ids))
    }

    /// Brings a session back, then looks for what its request misses beyond it.
    fn resumed(
        &mut self,
        id: u64,
        session: Option<Box<Sealed>>,
        pages: &[CheckedPage],
        trouble: Option<Trouble>,
        sink: &mut dyn WorkerSink,
    ) -> Result<(), Error> {
        let Some(waiting) = self.waiting.remove(&id) else {
            return Ok(());
        };
        let mut request = waiting.request;
        if let Some(trouble) = trouble {
            tell(sink, Some(id), trouble.into(), 0);
        }
        if let Some(session) = session {
            let before = self.engine.cached(&request.scope, &request.prompt);
            match self.bring_back(request.session, session.text, pages) {
                Ok(taken) => {
                    let len = self.engine.cached(&request.scope, &request.prompt);
                    let len = len.min(taken.positions);
                    request.restored = len.saturating_sub(before);
                    if len > 0 {
                        tell(sink, Some(id), What::Restored, len);
                    }
                }
                Err(error) => tell(sink, Some(id), What::Refused(error.to_string()), 0),
            }
        }
        self.consider(request, sink)
    }

    /// Takes in what there is of a session's pages, and gives the session its text.
    fn bring_back(
        &mut self,
        session: u64,
        text: SessionText,
        pages: &[CheckedPage],
    ) -> Result<Imported, Error> {
        let len = text.ids.len().min(pages.len() * PAGE_POSITIONS);
        let findable = self.engine.findable(&text.scope, &text.ids);
        if findable < text.ids.len() {
            return Err(Error::ImportBarred { position: findable });
        }
        let taken = self
            .engine
            .take_in(&text.scope, &text.ids[..len], 0, pages)?;
        self.engine.resume(session, text)?;
        Ok(taken)
    }

    /// Those that waited for what becomes of a page that nobody asks for any more look again.
    fn reconsider(&mut self, sink: &mut dyn WorkerSink) -> Result<(), Error> {
        let asked: HashSet<_> = (self.waiting.values())
            .filter(|waiting| waiting.asked)
            .map(|waiting| waiting.missing)
            .collect();
        let alone = |waiting: &Waiting| !waiting.asked && !asked.contains(&waiting.missing);
        let waiting = self.waiting.iter().filter(|(_, it)| alone(it));
        let ids: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(waiting) = self.waiting.remove(&id) {
                self.consider(waiting.request, sink)?;
            }
        }
        Ok(())
    }

    /// Requests that have waited long enough go on without.
    fn late(&mut self, sink: &mut dyn WorkerSink) -> Result<(), Error> {
        let late = |waiting: &Waiting| self.keeper.is_late(waiting.since_ms);
        let waiting = self.waiting.iter().filter(|(_, it)| late(it));
        let ids: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(waiting) = self.waiting.remove(&id) {
                tell_late(id, sink);
                self.pass(waiting.request)?;
            }
        }
        Ok(())
    }

    /// A lease that nobody makes use of.
    fn give_up(&self, request: u64, lease: Option<Lease>) {
        if let Some(lease) = lease {
            self.keeper.keep(Keep::Pages {
                request,
                pages: Vec::new(),
                leases: vec![lease],
            });
        }
    }

    /// Hands over what a request has computed and nobody keeps yet.
    fn publish(
        &mut self,
        request: u64,
        finished: bool,
        sink: &mut dyn WorkerSink,
    ) -> Result<(), Error> {
        let Some(open) = self.open.get_mut(&request) else {
            return Ok(());
        };
        let leases = std::mem::take(&mut open.leases);
        // The last token sampled has no keys and values yet; and pages may have been evicted since.
        let len = open.text.len().saturating_sub(1);
        let len = len.min(self.engine.cached(&open.scope, &open.text[..len]));
        let whole = len / PAGE_POSITIONS * PAGE_POSITIONS;
        let page_bytes = self.engine.layout().image_bytes(PAGE_POSITIONS);
        let (mut room, mut dropped) = (self.keeper.room(page_bytes), 0);
        let keeper = &self.keeper;
        let mut wanted = |key: &PageKey| {
            if dropped > 0 || keeper.is_stored(key) {
                return false;
            }
            let fits = room > 0;
            room = room.saturating_sub(1);
            dropped += usize::from(!fits);
            fits
        };
        let text = &open.text[..whole];
        let pages = self.engine.copy_pages(&open.scope, text, &mut wanted)?;
        if !pages.is_empty() {
            let keys = self.engine.page_keys(&open.scope, text)?;
            let last = pages.last().map(engine::PageCopy::key);
            let end = keys.iter().position(|key| Some(*key) == last);
            let positions = end.map_or(0, |at| (at + 1) * PAGE_POSITIONS);
            tell(sink, Some(request), What::Published, positions);
        }
        if dropped > 0 {
            tell(sink, Some(request), What::Dropped, whole);
        }
        if finished {
            self.open.remove(&request);
        }
        if !pages.is_empty() || !leases.is_empty() {
            self.keeper.keep(Keep::Pages {
                request,
                pages,
                leases,
            });
        }
        Ok(())
    }

    /// Ends a request; false if it is not in flight.
    pub fn cancel(&mut self, request: u64) -> bool {
        let waited = self.waiting.remove(&request).is_some();
        self.forget(request);
        self.engine.cancel(request) || waited
    }

    /// The engine no longer has a request: others need not wait for what it was to compute.
    fn forget(&mut self, request: u64) {
        if let Some(open) = self.open.remove(&request) {
            for lease in open.leases {
                self.give_up(request, Some(lease));
            }
        }
    }

    /// Bars a span here at once, and for every worker as soon as the store takes it.
    pub fn quarantine(
        &mut self,
        scope: &Scope,
        ids: &[u32],
        start: usize,
        running: OnQuarantine,
    ) -> Result<Quarantined, Error> {
        let done = self.engine.quarantine(scope, ids, start, running)?;
        for request in &done.aborted {
            self.forget(*request);
        }
        self.keeper.keep(Keep::Barred(Barred {
            scope: scope.clone(),
            ids: ids.to_vec(),
            start,
        }));
        Ok(done)
    }

    /// Puts an idle session away under a name, its open page and pending token with it; how many positions it has. `request`
    /// is its last one, for whoever is told.
    pub fn seal(
        &mut self,
        session: u64,
        name: &str,
        request: u64,
        sink: &mut dyn WorkerSink,
    ) -> Result<usize, Error> {
        let text = self.engine.session_text(session)?;
        let positions = text.ids.len();
        let pages = self.engine.page_keys(&text.scope, &text.ids)?;
        let mut new = |key: &PageKey| !self.keeper.is_stored(key);
        let copies = self.engine.copy_pages(&text.scope, &text.ids, &mut new)?;
        tell(sink, Some(request), What::Sealed, positions);
        let session = Box::new(Sealed {
            name: name.to_owned(),
            text,
            pages,
        });
        self.keeper.keep(Keep::Session {
            session,
            pages: copies,
        });
        Ok(positions)
    }

    /// Waits until all that was handed over has been tried, and tells of what could not be kept; false if it takes longer.
    pub fn flush(&mut self, wait: Duration, sink: &mut dyn WorkerSink) -> Result<bool, Error> {
        let flushed = self.keeper.flush(wait);
        while let Some(reply) = self.keeper.reply_within(Duration::ZERO) {
            self.replied(reply, sink)?;
        }
        Ok(flushed)
    }
}
