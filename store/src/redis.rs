//! A store in a Redis server: a key per name, and a set per kind that lists its names.
//!
//! Whatever the server does or says, a call ends in time and with a fault at worst. Not here: how bytes go to and fro (`wire`);
//! a time after which Redis itself forgets (when a lease ends is written in the lease). TLS is absent: put a tunnel between.

mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd, pipe};

use crate::object::{Entry, Fault, Kind, Name, OBJECT_BYTES_MAX, Store, fits};
use wire::{Request, Wire};

const KIND: &str = "redis";
/// So many names are asked for at once.
const NAMES_AT_ONCE: usize = 1000;
/// More than any answer is long but that to a page asked for.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What a server is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// No call takes longer: connecting, asking and the whole of the answer together.
    pub call_max: Duration,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            call_max: Duration::from_secs(1),
        }
    }
}

/// Keeps every object as the value of a key, `<prefix>page/<digits>`.
pub struct Redis {
    wire: Wire,
    prefix: String,
}

impl fmt::Debug for Redis {
    /// Where it is; not who asks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis({}, {:?})", self.wire.place(), self.prefix)
    }
}

impl Redis {
    /// The store under keys that begin with `prefix` at a server, which is not asked yet.
    pub fn open(url: &str, prefix: &str, options: RedisOptions) -> Result<Self, Fault> {
        let wire = Wire::new(url, options.call_max)
            .map_err(|what| Fault::new(KIND, "open", "the address", what))?;
        let prefix = prefix.to_owned();
        Ok(Self { wire, prefix })
    }

    fn key(&self, name: &Name) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key of the set of a kind's names.
    fn names(&self, kind: Kind) -> String {
        format!("{}names/{}", self.prefix, kind.word())
    }

    /// Adds to the list of a kind's names those that are kept but not listed, and takes out those listed but not kept, as
    /// they are after a server was restored from parts; how many it was that were wrong.
    pub fn rebuild(&self, kind: Kind, within: Duration) -> Result<usize, Fault> {
        let fault = |what: String| Fault::new(KIND, "rebuild", kind.word(), what);
        let mut ask = self.wire.within(within).map_err(fault)?;
        let start = format!("{}{}/", self.prefix, kind.word());
        let pattern = format!("{}*", quoted(&start));
        let names = self.names(kind);
        let mut wrong = 0;
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern);
            scan.arg("COUNT").arg(NAMES_AT_ONCE);
            let (next, keys) =
                scanned(ask.one(&scan, ANSWER_BYTES_MAX).map_err(fault)?).map_err(fault)?;
            let digits = keys.iter().filter_map(|key| key.strip_prefix(&start));
            let found: Vec<&str> = digits
                .filter(|text| Name::parse(kind, text).is_some())
                .collect();
            if !found.is_empty() {
                let mut add = cmd("SADD");
                add.arg(&names).arg(found);
                match ask.one(&add, ANSWER_BYTES_MAX).map_err(fault)? {
                    Value::Int(added) => wrong += added as usize,
                    other => return Err(fault(unexpected(&other))),
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let listed = self.listed(kind, &mut ask).map_err(fault)?;
        for (name, bytes) in listed {
            if bytes.is_none() {
                // Written since it was looked at, it is listed again by whoever wrote it, or by the next rebuilding.
                let mut drop = cmd("SREM");
                drop.arg(&names).arg(name.digits());
                ask.one(&drop, ANSWER_BYTES_MAX).map_err(fault)?;
                wrong += 1;
            }
        }
        Ok(wrong)
    }

    /// The names in a kind's set, each with the length of its value if it has one.
    fn listed(
        &self,
        kind: Kind,
        ask: &mut Request<'_>,
    ) -> Result<Vec<(Name, Option<u64>)>, String> {
        let mut names = BTreeSet::new(); // a scan may say one twice
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SSCAN");
            scan.arg(self.names(kind)).arg(cursor);
            scan.arg("COUNT").arg(NAMES_AT_ONCE);
            let (next, digits) = scanned(ask.one(&scan, ANSWER_BYTES_MAX)?)?;
            names.extend(digits.iter().filter_map(|text| Name::parse(kind, text)));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let names: Vec<Name> = names.into_iter().collect();
        let mut listed = Vec::with_capacity(names.len());
        for names in names.chunks(NAMES_AT_ONCE) {
            let mut lengths = pipe();
            for name in names {
                lengths.cmd("STRLEN").arg(self.key(name)).ignore();
                lengths.cmd("EXISTS").arg(self.key(name)).ignore();
            }
            let packed = lengths.get_packed_pipeline();
            let answers = ask.several(&packed, names.len() * 2, ANSWER_BYTES_MAX)?;
            for (name, answers) in names.iter().zip(answers.chunks(2)) {
                let bytes = match answers {
                    [Value::Int(_), Value::Int(0)] => None,
                    [Value::Int(bytes), Value::Int(1)] => Some(*bytes as u64),
                    [answer, ..] => return Err(unexpected(answer)),
                    [] => return Err("no answer".to_owned()),
                };
                listed.push((*name, bytes));
            }
        }
        Ok(listed)
    }

    /// Two commands of which both happen or neither: what the server answers to them.
    fn both(&self, first: Cmd, second: Cmd) -> Result<[Value; 2], String> {
        let mut both = pipe();
        both.atomic().add_command(first).add_command(second);
        let packed = both.get_packed_pipeline();
        let mut ask = self.wire.request()?;
        // MULTI, twice QUEUED, and what came of it.
        let last = ask.several(&packed, 4, ANSWER_BYTES_MAX)?.pop();
        let Some(Value::Array(answers)) = last else {
            return Err(unexpected(&last.unwrap_or_default()));
        };
        if let Some(refused) = answers.iter().find_map(wire::refusal) {
            return Err(refused);
        }
        answers
            .try_into()
            .map_err(|answers| unexpected(&Value::Array(answers)))
    }

    fn listing(&self, command: &str, name: &Name) -> Cmd {
        let mut listing = cmd(command);
        listing.arg(self.names(name.kind)).arg(name.digits());
        listing
    }

    fn read(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, String> {
        let mut get = cmd("GET");
        get.arg(self.key(name));
        match self.wire.request()?.one(&get, OBJECT_BYTES_MAX + 64)? {
            Value::Nil => Ok(false),
            Value::BulkString(bytes) => {
                into.extend_from_slice(&bytes);
                Ok(true)
            }
            other => Err(unexpected(&other)),
        }
    }

    fn write(&self, name: &Name, bytes: &[u8], only_if_new: bool) -> Result<bool, String> {
        fits(bytes.len() as u64)?;
        let mut set = cmd("SET");
        set.arg(self.key(name)).arg(bytes);
        if only_if_new {
            set.arg("NX");
        }
        // Listed even if not set: then it is there already, and ought to be in the list.
        match self.both(set, self.listing("SADD", name))? {
            [Value::Okay, Value::Int(_)] => Ok(true),
            [Value::Nil, Value::Int(_)] if only_if_new => Ok(false),
            [set, _] => Err(unexpected(&set)),
        }
    }

    fn unlink(&self, name: &Name) -> Result<(), String> {
        let mut del = cmd("DEL");
        del.arg(self.key(name));
        match self.both(del, self.listing("SREM", name))? {
            [Value::Int(_), Value::Int(_)] => Ok(()),
            [del, _] => Err(unexpected(&del)),
        }
    }
}

/// A text as a pattern that matches just this text.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted
}

/// Where a scan goes on, and what it found; names that are no text are none of ours.
fn scanned(answer: Value) -> Result<(u64, Vec<String>), String> {
    let Value::Array(parts) = answer else {
        return Err(unexpected(&answer));
    };
    let Ok([Value::BulkString(cursor), Value::Array(found)]) = <[Value; 2]>::try_from(parts) else {
        return Err("an answer that is no scan".to_owned());
    };
    let cursor = String::from_utf8(cursor).ok();
    let cursor = cursor.and_then(|text| text.parse().ok());
    let found = found.into_iter().filter_map(|value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    });
    let cursor = cursor.ok_or("a scan that does not say where it goes on")?;
    Ok((cursor, found.collect()))
}

/// Says what kind of answer it was; what stood in it may be anything, of any length.
fn unexpected(answer: &Value) -> String {
    let kind = match answer {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) => "bytes",
        Value::Array(_) => "a list",
        Value::Okay | Value::SimpleString(_) => "a word",
        _ => "something",
    };
    format!("it answered {kind} where something else was due: is it a Redis server?")
}

impl Store for Redis {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        self.read(name, into)
            .map_err(|what| Fault::new(KIND, "get", name, what))
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        self.write(name, bytes, false)
            .map(|_| ())
            .map_err(|what| Fault::new(KIND, "put", name, what))
    }

    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        self.write(name, bytes, true)
            .map_err(|what| Fault::new(KIND, "claim", name, what))
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.unlink(name)
            .map_err(|what| Fault::new(KIND, "remove", name, what))
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        let listed = self
            .wire
            .request()
            .and_then(|mut ask| self.listed(kind, &mut ask))
            .map_err(|what| Fault::new(KIND, "list", kind.word(), what))?;
        // A name without a value is one the server has thrown out to make room.
        let kept = listed.into_iter().filter(|(_, bytes)| bytes.is_some());
        let entry = |(name, bytes)| Entry {
            name,
            bytes,
            used_ms: None,
        };
        Ok(kept.map(entry).collect())
    }
}

#[cfg(test)]
mod tests;
