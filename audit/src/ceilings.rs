//! What run.json says the machine can do at best: asserted, but it must be possible.
//!
//! Not here: any figure that rests on a ceiling.
#![allow(missing_docs)] // FORMAT.md documents every field
#![allow(clippy::struct_field_names)] // as there: units last

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::keyed;
use crate::notebook::{Layer, Notebook};

/// Work per second, by number of threads.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ceilings {
    #[serde(deserialize_with = "keyed")]
    pub(crate) read_bytes_per_s: BTreeMap<String, u64>,
    #[serde(deserialize_with = "keyed")]
    pub(crate) f32_flop_per_s: BTreeMap<String, u64>,
    #[serde(deserialize_with = "keyed")]
    pub(crate) int8_op_per_s: BTreeMap<String, u64>,
}

impl Ceilings {
    /// The same thread counts in all three, one thread among them, and no rate of nothing.
    pub(crate) fn check(&self, notes: &mut Notebook) {
        let threads: Vec<&String> = self.read_bytes_per_s.keys().collect();
        for (name, rates) in [
            ("f32_flop_per_s", &self.f32_flop_per_s),
            ("int8_op_per_s", &self.int8_op_per_s),
        ] {
            let keys = format!("keys of machine.ceilings.{name}");
            notes.same(Layer::Record, &keys, &rates.keys().collect(), &threads);
        }
        for (name, rates) in [
            ("read_bytes_per_s", &self.read_bytes_per_s),
            ("f32_flop_per_s", &self.f32_flop_per_s),
            ("int8_op_per_s", &self.int8_op_per_s),
        ] {
            let name = format!("machine.ceilings.{name}");
            let counted = rates.keys().all(|key| is_count(key)) && rates.contains_key("1");
            notes.check(Layer::Record, counted, || {
                format!("{name} has keys that are no numbers of threads, or not \"1\"")
            });
            let positive = rates.values().all(|rate| *rate > 0);
            notes.check(Layer::Record, positive, || {
                format!("{name} has a rate of 0")
            });
        }
    }
}

/// A number above 0 in its one spelling.
fn is_count(key: &str) -> bool {
    key.parse::<u32>()
        .is_ok_and(|count| count > 0 && count.to_string() == key)
}
