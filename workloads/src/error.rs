//! Everything this crate can refuse, each with what was wrong, where, and what to give instead.
//!
//! Not here: failures of a run (`engine`, `baselines`) or of evidence (`audit`).

/// Why an envelope, a plan or a set of traces was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not TOML, or not the TOML we know: the message carries line and column.
    #[error("{file}: {source}")]
    Toml {
        /// What was read, as the user would name it.
        file: String,
        /// The parser's own words.
        source: Box<toml::de::Error>,
    },
    /// A field holds a value outside what is allowed.
    #[error("{place}: {field} = {value}; give {wanted}")]
    Field {
        /// File and line, or the command line.
        place: String,
        /// Dotted name of the field.
        field: String,
        /// What it holds.
        value: String,
        /// What it may hold.
        wanted: String,
    },
    /// No embedded envelope has this name.
    #[error("no envelope is named `{name}`; known: {known}; or give a path that ends in .toml")]
    UnknownEnvelope {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No model in models.toml has this name.
    #[error("no model is named `{name}`; known: {known}; or give the path of a GGUF file")]
    UnknownModel {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No arm has this name.
    #[error("no arm is named `{name}`; known: {known}")]
    UnknownArm {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The shape asks for more tokens than can be counted.
    #[error("the shape needs more than 2^64 tokens; give fewer turns, agents or ids")]
    TooManyTokens,
    /// Results of one turn must start with different ids, so there must be an id for every agent.
    #[error(
        "{agents} agents need as many ordinary token ids to start their results with, and the \
         vocabulary has {ids}; lower workload.agents or take a larger model"
    )]
    TooFewIds {
        /// Agents asked for.
        agents: usize,
        /// Ordinary ids the model has.
        ids: usize,
    },
    /// A vocabulary whose ordinary ids begin so late that nobody could check ids against the seed.
    #[error(
        "the model's ordinary token ids begin at {first}, and an audit can only check ids of \
         vocabularies in which they begin below {end}; take another model"
    )]
    LateIds {
        /// First ordinary id.
        first: u32,
        /// Where it may be at most, not included.
        end: u32,
    },
    /// A trace does not have the lines its place in the run requires.
    #[error("trace {trace}: {problem}; the run cannot be summarised, run it again")]
    Trace {
        /// `<arm>-<rep>`.
        trace: String,
        /// What is missing or in the way.
        problem: String,
    },
}
