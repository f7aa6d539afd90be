//! A strict stand-in for a server: it takes one kind of request to the letter, and replays an answer over a real socket.
//!
//! A request with an unknown field, or without one that matters, is answered 400 with the fields' names, so what is sent
//! is checked by the same tests as what is read. Not here: what servers answer (`answers`).

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// What a server takes, as its documentation has it.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    /// Method and path.
    pub(crate) line: &'static str,
    /// Fields of the body, those of objects behind a dot, those of lists behind `[]`.
    pub(crate) fields: &'static [&'static str],
    /// Headers beyond those of every request, and their values.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// A part of an answer's body.
#[derive(Clone)]
pub(crate) enum Part {
    /// These bytes, as a chunk of their own.
    Bytes(Vec<u8>),
    /// The same again and again, until nobody reads.
    Endless(Vec<u8>),
    /// Nothing more, with the connection open until nobody waits.
    Silence,
    /// The connection is closed with the answer unfinished.
    Death,
}

/// An answer.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) parts: Vec<Part>,
}

impl Script {
    /// Server-sent events, each a chunk of its own.
    pub(crate) fn events(events: &[&str]) -> Self {
        let event = |event: &&str| Part::Bytes(format!("data: {event}\n\n").into_bytes());
        Self::stream("text/event-stream", events.iter().map(event).collect())
    }

    /// Lines, each a chunk of its own.
    pub(crate) fn lines(lines: &[&str]) -> Self {
        let line = |line: &&str| Part::Bytes(format!("{line}\n").into_bytes());
        Self::stream("application/x-ndjson", lines.iter().map(line).collect())
    }

    pub(crate) fn stream(kind: &'static str, parts: Vec<Part>) -> Self {
        let status = "200 OK";
        Self {
            status,
            kind,
            parts,
        }
    }

    pub(crate) fn refusal(status: &'static str, body: &str) -> Self {
        Self {
            status,
            kind: "application/json",
            parts: vec![Part::Bytes(body.as_bytes().to_vec())],
        }
    }

    pub(crate) fn then(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// The same bytes, one to a chunk.
    pub(crate) fn in_single_bytes(self) -> Self {
        let bytes = self.parts.into_iter().flat_map(|part| match part {
            Part::Bytes(bytes) => bytes,
            _ => panic!("only bytes can be cut"),
        });
        let parts = bytes.map(|byte| Part::Bytes(vec![byte])).collect();
        Self::stream(self.kind, parts)
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
}

/// A running stand-in; it ends with the process.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Answers every request so. `SAID` in an answer becomes what the request's headers say.
    pub(crate) fn new(takes: Takes, script: Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, script) = (Arc::clone(&kept), script.clone());
                thread::spawn(move || {
                    // Whoever asked may be gone before the answer is.
                    let _ = answer(stream.unwrap(), takes, script, &kept);
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    takes: Takes,
    script: Script,
    kept: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let asked = read(&mut BufReader::new(stream.try_clone()?))?;
    let script = match problem(&asked, takes) {
        None => script,
        Some(problem) => Script::refusal("400 Bad Request", &problem),
    };
    let said = asked.head.join(" ");
    kept.lock().unwrap().push(asked);
    let (status, kind) = (script.status, script.kind);
    // It promises to keep the connection and closes it.
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"
    )?;
    for part in script.parts {
        match part {
            Part::Bytes(bytes) => chunk(&mut stream, &replaced(bytes, &said))?,
            Part::Endless(bytes) => loop {
                chunk(&mut stream, &bytes)?;
            },
            Part::Silence => {
                stream.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Part::Death => return Ok(()),
        }
    }
    stream.write_all(b"0\r\n\r\n")
}

fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk)
}

fn replaced(bytes: Vec<u8>, said: &str) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => text.replace("SAID", said).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

fn read(stream: &mut impl BufRead) -> std::io::Result<Asked> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        head.push(line.to_owned());
    }
    let length = |line: &String| line.strip_prefix("content-length: ")?.parse().ok();
    let mut body = vec![0; head.iter().find_map(length).unwrap_or(0)];
    stream.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    Ok(Asked { head, body })
}

/// What a server would refuse about a request.
fn problem(asked: &Asked, takes: Takes) -> Option<String> {
    let line = format!("{} HTTP/1.1", takes.line);
    if asked.head.first() != Some(&line) {
        return Some(format!("{:?} is not {line}", asked.head.first()));
    }
    let json = ("content-type", "application/json");
    for (name, value) in takes.headers.iter().chain([&json]) {
        let wanted = format!("{name}: {value}");
        if !asked.head.contains(&wanted) {
            return Some(format!("no header {wanted}"));
        }
    }
    if takes.fields.is_empty() && asked.body.is_empty() {
        return None;
    }
    let Ok(body) = serde_json::from_str(&asked.body) else {
        return Some("the body is no JSON".to_owned());
    };
    let mut found = BTreeSet::new();
    fields(&body, "", &mut found);
    let wanted: BTreeSet<String> = takes.fields.iter().map(|it| (*it).to_owned()).collect();
    let unknown: Vec<&String> = found.difference(&wanted).collect();
    let missing: Vec<&String> = wanted.difference(&found).collect();
    (unknown.len() + missing.len() > 0).then(|| format!("unknown {unknown:?}, missing {missing:?}"))
}

fn fields(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if at.is_empty() { "" } else { "." };
                fields(value, &format!("{at}{dot}{name}"), found);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for value in values {
                fields(value, &format!("{at}[]"), found);
            }
        }
        _ => {
            found.insert(at.to_owned());
        }
    }
}
