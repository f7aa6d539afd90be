//! Reading small files strictly: bounded size, UTF-8, no field unknown, missing or stated twice.
//!
//! Not here: traces, which are read line by line (`trace`), and what the values mean.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::notebook::{Layer, Notebook};
use crate::schema;

/// Bytes an envelope or run.json may have; real ones have thousands.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Reads `name` in `dir` as JSON, or notes why it cannot be read: first of all that it is of another version.
pub(crate) fn read<T: DeserializeOwned>(dir: &Path, name: &str, notes: &mut Notebook) -> Option<T> {
    read_tagged(dir, name, schema::of(name), notes)
}

/// The same of a document whose schema its name does not tell.
pub(crate) fn read_tagged<T: DeserializeOwned>(
    dir: &Path,
    name: &str,
    tag: &str,
    notes: &mut Notebook,
) -> Option<T> {
    let text = text(dir, name, notes)?;
    let read = serde_json::from_str(&text);
    let other = schema::refuse(text.as_bytes(), tag);
    notes.keep_document(name, text);
    if let Some(message) = other {
        notes.broken_at(Layer::Format, "schema", message);
        return None;
    }
    if let Err(error) = &read {
        notes.turn_to(Some(error.line() as u64));
        let message = format!("is not what FORMAT.md describes: {error}");
        notes.broken(Layer::Format, message);
        notes.turn_to(None);
    }
    read.ok()
}

/// The text of `name` in `dir`, or notes why there is none.
pub(crate) fn text(dir: &Path, name: &str, notes: &mut Notebook) -> Option<String> {
    notes.open(name);
    let mut bytes = Vec::new();
    let read = File::open(dir.join(name))
        .and_then(|file| file.take(MAX_JSON_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        notes.broken(Layer::Format, format!("cannot be read: {error}"));
        return None;
    }
    if bytes.len() as u64 > MAX_JSON_BYTES {
        let message = format!("is larger than the limit of {MAX_JSON_BYTES} bytes");
        notes.broken(Layer::Format, message);
        return None;
    }
    let text = String::from_utf8(bytes);
    if text.is_err() {
        notes.broken(Layer::Format, "is not what FORMAT.md describes: not UTF-8");
    }
    text.ok()
}

/// For a field that may be null but must be there; by default serde takes a missing one for null.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// For a field that may be left out but not null; by default serde takes the one for the other.
pub(crate) fn stated<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// For an object keyed by name; by default the last of two equal keys would win silently.
pub(crate) fn keyed<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Keyed<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Keyed<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if entries.contains_key(&key) {
                    return Err(A::Error::custom(format!("key {key:?} is stated twice")));
                }
                entries.insert(key, map.next_value()?);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Keyed(PhantomData))
}
