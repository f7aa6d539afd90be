//! One request's output as text that is certain, with what ends it left out.
//!
//! Not here: choosing tokens (`engine`), printing (`generate`).

use engine::tokenizer::Detokenizer;
use engine::{Event, FinishReason, Logprob, Sink, StopMatcher, Tokenizer};
use serde_json::{Value, json};

use crate::error::Error;

/// Collects ids and makes text of them.
pub(super) struct Answer {
    /// The generated ids, an end-of-text or stop id and ids of a stop string included.
    pub(super) ids: Vec<u32>,
    logprobs: Vec<Vec<Logprob>>,
    /// The id that has not become text yet.
    fresh: Option<u32>,
    /// None where the model has no tokenizer.
    decoder: Option<Detokenizer>,
    stops: StopMatcher,
    text: String,
    finish: Option<&'static str>,
}

impl Answer {
    /// An empty answer; stop strings need a tokenizer.
    pub(super) fn new(
        tokenizer: Option<&Tokenizer>,
        stop: &[String],
        reference: &str,
    ) -> Result<Self, Error> {
        if tokenizer.is_none() && !stop.is_empty() {
            let usage = format!("{reference} has no tokenizer to find --stop with; give --stop-id");
            return Err(Error::Usage(usage));
        }
        Ok(Self {
            ids: Vec::new(),
            logprobs: Vec::new(),
            fresh: None,
            decoder: tokenizer.map(Tokenizer::stream),
            stops: StopMatcher::new(stop.to_vec())?,
            text: String::new(),
            finish: None,
        })
    }

    /// The text that the last step made certain.
    pub(super) fn advance(&mut self) -> Result<String, Error> {
        let fresh = self.fresh.take().filter(|_| !self.is_stopped());
        let (Some(decoder), Some(id)) = (&mut self.decoder, fresh) else {
            return Ok(String::new());
        };
        let piece = decoder.push(id)?;
        Ok(self.pass(&piece))
    }

    /// The text that was held back, once nothing more comes.
    pub(super) fn end(&mut self) -> String {
        let rest = self
            .decoder
            .as_mut()
            .map_or_else(String::new, Detokenizer::finish);
        let passed = self.pass(&rest);
        let held = self.stops.finish();
        self.text += &held;
        passed + &held
    }

    fn pass(&mut self, piece: &str) -> String {
        let passed = self.stops.push(piece);
        if passed.stopped {
            self.finish = Some("stop");
        }
        self.text += &passed.text;
        passed.text
    }

    /// Whether an end-of-text id, a stop id or a stop string came.
    pub(super) fn is_stopped(&self) -> bool {
        self.finish.is_some_and(|reason| reason != "length")
    }

    /// The certain text, if there is a tokenizer.
    pub(super) fn text(&self) -> Option<&str> {
        self.decoder.is_some().then_some(self.text.as_str())
    }

    /// What `--json` prints.
    pub(super) fn document(&self) -> Value {
        let mut document = json!({ "ids": self.ids, "text": self.text(), "finish": self.finish });
        let entry = |it: &Logprob| json!({ "id": it.id, "logprob": it.logprob });
        let told: Vec<Value> = self
            .logprobs
            .iter()
            .filter_map(|listed| {
                let (chosen, top) = listed.split_first()?;
                let mut told = entry(chosen);
                told["top"] = top.iter().map(entry).collect();
                Some(told)
            })
            .collect();
        if !told.is_empty() {
            document["logprobs"] = told.into();
        }
        document
    }
}

impl Sink for Answer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Token { id, logprobs, .. } => {
                self.ids.push(id);
                self.logprobs.push(logprobs.to_vec());
                self.fresh = Some(id);
            }
            Event::Finish { reason, .. } => {
                self.finish = Some(match reason {
                    FinishReason::Length => "length",
                    FinishReason::Eos => "eos",
                    FinishReason::Stop => "stop",
                });
            }
            _ => {}
        }
    }
}
