//! A request from submission to its last token.

use super::cache::Wanted;
use super::pins::Origin;
use crate::error::{Error, Result};
use crate::kv::{PageTable, RowCounts, RowSource, Scope};
use crate::model::Config;
use crate::sample::SamplingParams;

/// What a client asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The caller's number for it, unique among requests in flight.
    pub id: u64,
    /// The session whose cache it continues.
    pub session: u64,
    /// The whole prompt; what of it is cached is the engine's business.
    pub prompt: Vec<u32>,
    /// Tokens to sample at most.
    pub decode_max: usize,
    /// Go on after the end-of-text token.
    pub ignore_eos: bool,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Who may share what is cached of it.
    pub scope: Scope,
    /// How many positions of its prompt were taken in from elsewhere for it: events tell these from what was here.
    pub restored: usize,
    /// How much its pages are worth keeping, for the eviction policy `priority`.
    pub priority: i32,
}

impl Request {
    /// What the cache is asked for it.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            scope: &self.scope,
            session: self.session,
            priority: self.priority,
            prompt: &self.prompt,
        }
    }

    /// Positions it may come to have.
    pub fn positions(&self) -> usize {
        self.prompt.len() + self.decode_max
    }

    /// That the model can run it.
    pub fn check(&self, config: &Config) -> Result<()> {
        if self.decode_max == 0 {
            return Err(Error::BadOption {
                option: "decode_max",
                value: 0,
                range: "1 or more",
            });
        }
        self.sampling.check(config.vocab)?;
        check_prompt(&self.prompt, self.decode_max, config)
    }
}

/// That `prompt` has tokens, all in the vocabulary, and fits the context together with `decode_max` more.
pub fn check_prompt(prompt: &[u32], decode_max: usize, config: &Config) -> Result<()> {
    if prompt.is_empty() {
        return Err(Error::EmptyPrompt);
    }
    let vocab = config.vocab;
    if let Some(position) = prompt.iter().position(|id| *id as usize >= vocab) {
        return Err(Error::TokenOutOfRange {
            id: prompt[position],
            position,
            vocab,
        });
    }
    let needed = prompt.len().saturating_add(decode_max);
    if needed > config.context {
        return Err(Error::ContextExceeded {
            needed,
            limit: config.context,
        });
    }
    Ok(())
}

/// A request that runs.
pub struct Active {
    /// As submitted.
    pub request: Request,
    /// Tokens sampled.
    pub output: Vec<u32>,
    /// Its cached positions.
    pub table: PageTable,
    /// Position of a token sampled in an earlier request and fed only now.
    pub carried_at: Option<usize>,
    /// Rows its pages held before any of its own was written.
    pub written_before: RowCounts,
    /// Positions run again only for logits.
    pub replayed: usize,
    /// Steps its prompt took.
    pub chunks: usize,
    /// Pages it may still allocate.
    pub reserved: usize,
    /// The text that rotated positions it goes on from were computed for.
    pub origin: Option<Origin>,
}

impl Active {
    /// Whether its prompt is not all in the cache, or has given no logits yet.
    pub fn is_prefilling(&self) -> bool {
        self.output.is_empty()
    }

    /// Whether it goes on from rotated positions.
    pub fn is_approximate(&self) -> bool {
        self.origin.is_some()
    }

    /// Whose token the prompt position is.
    pub fn source(&self, position: usize) -> RowSource {
        if self.carried_at == Some(position) {
            RowSource::Carried
        } else {
            RowSource::Prefill
        }
    }

    /// The token at the next position without KV, prompt first, then output.
    pub fn next_token(&self) -> u32 {
        let position = self.table.len();
        let prompt = &self.request.prompt;
        if position < prompt.len() {
            prompt[position]
        } else {
            self.output[position - prompt.len()]
        }
    }
}
