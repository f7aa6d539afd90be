//! What the engine tells the outside while it works. Events carry no time: whoever receives one has the clock.
//!
//! Not here: trace lines (`baselines` writes them) or counters (the page pool counts what it writes).

/// Receives events in the order they happen.
pub trait Sink {
    /// One event.
    fn event(&mut self, event: Event<'_>);
}

/// Discards every event.
pub struct NullSink;

impl Sink for NullSink {
    fn event(&mut self, _event: Event<'_>) {}
}

/// Something that happened to a request, or a step that ended.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Positions found in the cache on admission: in the session's own pages, in this instance's tree.
    Prefix {
        /// Request id.
        request: u64,
        /// Positions of the session's own pages.
        own: usize,
        /// Positions of pages other sessions of this instance wrote.
        instance: usize,
        /// Positions of pages that were taken in from elsewhere for this request, as it says itself.
        store: usize,
        /// From where on nothing may be found, because a span of the prompt is quarantined.
        barred_at: Option<usize>,
        /// Whether positions were rotated after a span was taken out: what follows is only near what it would be.
        approximate: bool,
    },
    /// The prompt is in the cache and the first logits exist.
    Prefill {
        /// Request id.
        request: u64,
        /// Client-supplied positions whose KV was newly written.
        computed: usize,
        /// Positions of earlier sampled tokens written now.
        carried: usize,
        /// Positions run again only for logits.
        replayed: usize,
        /// Steps it took.
        chunks: usize,
    },
    /// A token was sampled.
    Token {
        /// Request id.
        request: u64,
        /// Token id.
        id: u32,
        /// Requests in the step that sampled it.
        batch: usize,
        /// The chosen token, then the likeliest ones; empty unless asked for.
        logprobs: &'a [Logprob],
    },
    /// The request is done.
    Finish {
        /// Request id.
        request: u64,
        /// Why.
        reason: FinishReason,
        /// The logits the last token was chosen from, `[vocab]`.
        logits: &'a [f32],
    },
    /// A step ended.
    Step {
        /// What it did.
        phase: Phase,
        /// Positions run.
        rows: usize,
        /// Requests that took part.
        requests: usize,
    },
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It has all the tokens it asked for.
    Length,
    /// The model ended the text.
    Eos,
    /// It sampled one of its stop ids.
    Stop,
}

/// A token's log-probability: log-softmax of the raw logits, before any sampling parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

/// What a step ran: prompts or one token per request, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Prompt positions.
    Prefill,
    /// One position per decoding request.
    Decode,
}
