//! The native engine: GGUF in, token ids and logits out, the same bits on every path.
//!
//! Modules are layered, each importing strictly lower ones (ARCHITECTURE.md has the table). Not here: clocks, printing,
//! environment, processes.

pub mod backend;
pub mod engine;
pub mod error;
pub mod event;
pub mod kernels;
pub mod kv;
pub mod model;
pub mod pool;
pub mod sample;
pub mod schedule;
pub mod template;
pub mod tensor;
pub mod tokenizer;
pub mod weights;

pub use engine::{
    Counters, Engine, EngineOptions, EvictMode, Evicted, Hold, Imported, KvNode, KvSnapshot,
    KvTombstone, OnQuarantine, Quarantined, SessionText,
};
pub use error::{Error, ImageFault, Result};
pub use event::{Event, FinishReason, Logprob, NullSink, Phase, Sink};
pub use kernels::{KernelChoice, ceilings};
pub use kv::{
    CheckedPage, Eviction, EvictionPolicy, Layout, Occupancy, PageCopy, PageKey, Public, Scope,
};
pub use model::Model;
pub use sample::{SamplingParams, StopMatcher};
pub use schedule::{Admission, CachePolicy, Request};
pub use tensor::{DType, KvType, Mode, PAGE_POSITIONS};
pub use tokenizer::Tokenizer;
pub use weights::quantize::{Quantized, quantize_gguf};
