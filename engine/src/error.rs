//! Every way the engine can refuse, each with what was wrong and where.
//!
//! Not here: what to do about it on a command line; `harness` adds the command to type.

use std::path::PathBuf;

/// The engine's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A model file breaks its own format.
    #[error("{}: byte {offset}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A tensor has an element type this engine does not compute.
    #[error(
        "tensor `{tensor}` has type {dtype}; supported: F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0"
    )]
    UnsupportedType {
        /// Tensor name.
        tensor: String,
        /// GGUF type name, or its number when unknown.
        dtype: String,
    },
    /// Metadata lacks a key without a default.
    #[error("metadata key `{0}` is missing")]
    MissingKey(String),
    /// A metadata key has the wrong type or an impossible value.
    #[error("metadata key `{key}`: {what}")]
    BadKey {
        /// The key.
        key: String,
        /// What was found and what was expected.
        what: String,
    },
    /// The model lacks a tensor its architecture needs.
    #[error("tensor `{0}` is missing")]
    MissingTensor(String),
    /// A tensor has another shape than the architecture numbers say.
    #[error("tensor `{tensor}` has shape {found:?}; the architecture needs {expected:?}")]
    WrongShape {
        /// Tensor name.
        tensor: String,
        /// Shape from the metadata, innermost first.
        expected: Vec<usize>,
        /// Shape in the file, innermost first.
        found: Vec<usize>,
    },
    /// The model holds a tensor this architecture does not use here, so it computes something else.
    #[error("tensor `{0}` is not part of the architecture as supported here")]
    UnexpectedTensor(String),
    /// The architecture is not one this engine knows.
    #[error("architecture `{0}` is not supported; supported: llama, mistral, qwen2, qwen3")]
    UnsupportedArchitecture(String),
    /// The tokenizer cannot be built exactly as the file describes it.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// No such synthetic model.
    #[error("no synthetic model `{name}`; there are: {known}")]
    UnknownSynthetic {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The requested kernel set does not exist on this CPU.
    #[error("kernels `{0}` are not available on this CPU; use auto or scalar")]
    KernelsUnavailable(String),
    /// An option is outside its range.
    #[error("{option} is {value}; it must be {range}")]
    BadOption {
        /// Option name.
        option: &'static str,
        /// The value given.
        value: usize,
        /// What would be accepted.
        range: &'static str,
    },
    /// The system gives no more threads.
    #[error("cannot start {threads} threads: {source}; ask for fewer")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A request without a prompt.
    #[error("the prompt is empty; give at least one token id")]
    EmptyPrompt,
    /// A token id outside the vocabulary.
    #[error("token id {id} at position {position} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Where in the prompt.
        position: usize,
        /// Vocabulary size.
        vocab: usize,
    },
    /// Prompt and output together exceed the model's context.
    #[error("prompt and output need {needed} positions; the model's context is {limit}")]
    ContextExceeded {
        /// Positions needed.
        needed: usize,
        /// Positions the model has.
        limit: usize,
    },
    /// The page pool cannot hold the request even with everything evictable gone.
    #[error("KV pages: {needed} needed, {available} can be freed of {capacity}; raise kv_pages")]
    PagesExhausted {
        /// Pages the request needs.
        needed: usize,
        /// Pages free or evictable.
        available: usize,
        /// Pages the pool may hold.
        capacity: usize,
    },
    /// No more spans can be barred, and none may be forgotten.
    #[error("{0} spans are barred already, the most there may be; start a new engine")]
    TombstonesFull(usize),
    /// What is said to be the image of a cached page is none that this engine could take in.
    #[error("page image {index}, counted from 0: {fault}; nothing was taken in")]
    PageImage {
        /// Which of those given.
        index: usize,
        /// What is wrong with it.
        fault: ImageFault,
    },
    /// Pages to be taken in are of a text that a quarantine bars.
    #[error(
        "the text of these pages is barred from position {position} on; only pages before it can be taken in"
    )]
    ImportBarred {
        /// The first barred position.
        position: usize,
    },
    /// Pages to be taken in continue a text of which less is cached than they say.
    #[error(
        "these pages go on from page {from} of their text, of which {cached} are cached; take in those between first"
    )]
    PagesMissing {
        /// Pages of the text that should be there.
        from: usize,
        /// Pages of it that are.
        cached: usize,
    },
    /// More or fewer pages than the text has from there on.
    #[error("{given} pages were given; the text has {expected} from there on")]
    PagesGiven {
        /// Pages given.
        given: usize,
        /// Pages of the text.
        expected: usize,
    },
    /// A session is to be put away or to come back that is there already, or is not what it was.
    #[error("session {session} cannot {what}")]
    Session {
        /// The session.
        session: u64,
        /// What cannot be done with it, and why.
        what: &'static str,
    },
    /// Cached pages are to leave or enter an engine that does not share them.
    #[error(
        "cached pages are exchanged only where all may find them, and the cache policy is {0}; use shared"
    )]
    NotShared(String),
    /// A span of a text that is not there.
    #[error("span {start}..{end} is not within the {len} positions there are")]
    SpanOutOfRange {
        /// Its first position.
        start: usize,
        /// One past its last.
        end: usize,
        /// Positions there are.
        len: usize,
    },
    /// A session that the engine does not know, or no longer.
    #[error("session {0} is not known; it has finished no request here, or was closed")]
    UnknownSession(u64),
    /// A span cannot be taken out by rotation.
    #[error("the span cannot be rotated out: {0}; use exact")]
    CannotRotate(String),
    /// A session may have one request at a time.
    #[error("session {0} already has a request in flight")]
    SessionBusy(u64),
    /// A request id was used before and is still active.
    #[error("request id {0} is already in flight")]
    DuplicateRequest(u64),
    /// A logit is NaN or infinite, so the model's numbers cannot be trusted.
    #[error("logit {index} of request {request} is not finite")]
    NonFinite {
        /// The request.
        request: u64,
        /// Index in the vocabulary.
        index: usize,
    },
    /// A sampling parameter is outside its range.
    #[error("{parameter} is {value}; it must be {range}")]
    BadParameter {
        /// Its name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What would be accepted.
        range: String,
    },
    /// A chat template is broken, or uses what this engine does not support.
    #[error("chat template, line {line}: {what}")]
    Template {
        /// Line of the template's source, from 1; 0 where it cannot be told.
        line: usize,
        /// What was found.
        what: String,
    },
    /// A chat template refused the conversation by `raise_exception`.
    #[error("the chat template refuses this conversation: {0}")]
    TemplateRaised(String),
    /// A chat template exceeds a limit on time, memory or nesting.
    #[error("the chat template is not rendered: {0}")]
    TemplateLimit(String),
    /// A file that should be JSON is not, or not the JSON its format says.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        source: serde_json::Error,
    },
    /// The numbers of a model do not fit together.
    #[error("the model's configuration contradicts itself: {0}")]
    Inconsistent(String),
}

/// What is wrong with the image of a cached page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageFault {
    /// Shorter than any image.
    #[error("it has {found} bytes; the smallest image has {least}")]
    Short {
        /// Bytes it has.
        found: usize,
        /// Bytes of an image without positions.
        least: usize,
    },
    /// Something else.
    #[error("it does not begin as page images do")]
    Magic,
    /// Of a format that this engine does not read.
    #[error("its format is version {found}; this engine reads version {known}")]
    Version {
        /// The image's.
        found: u32,
        /// The engine's.
        known: u32,
    },
    /// Bytes are not those that were written.
    #[error("its digest is not that of its bytes; it is damaged")]
    Digest,
    /// Of another KV type.
    #[error("its KV type is {found}; the engine's is {expected}")]
    KvType {
        /// The image's, its number if it is none we know.
        found: String,
        /// The engine's.
        expected: &'static str,
    },
    /// Of a model with other sizes.
    #[error(
        "its layers, KV heads and dimensions per head are {found:?}; the engine's are {expected:?}"
    )]
    Shape {
        /// The image's.
        found: [u32; 3],
        /// The engine's.
        expected: [usize; 3],
    },
    /// More positions than a page has, or none.
    #[error("it has {0} positions; a page has 1 to 64")]
    Positions(u32),
    /// Longer or shorter than its header says.
    #[error("it has {found} bytes; one of so many positions has {expected}")]
    Length {
        /// Bytes it has.
        found: usize,
        /// Bytes it should have.
        expected: usize,
    },
    /// The first of a text, and follows something.
    #[error(
        "it does not begin a text here: it is a later page, or of another model, mode or KV type"
    )]
    Root,
    /// Not the first of a text, and follows something else than the page before it.
    #[error("it does not follow the page before it")]
    Parent,
    /// After a page with fewer positions than a page can have.
    #[error("it follows a page that is not full")]
    AfterPart,
    /// Of another text, though its key is the one that was asked for.
    #[error("its ids are not those of the text it was asked for, though its key is")]
    Ids,
    /// Its key does not follow from what it holds.
    #[error("its key is not that of its ids for this tenant or public beginning")]
    Key,
}

/// Result with the engine's error.
pub type Result<T> = std::result::Result<T, Error>;
