//! A server of another engine, started for one repetition: its arguments, its log while it starts, its memory, its end.
//!
//! Not here: what is asked of it (`play`) or how it is spoken to (`protocol`).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use workloads::arm::LlamaServer;

/// Lines kept of the beginning of a log, where settings stand.
const HEAD_LINES: usize = 2000;
/// Lines kept of its end, where reasons stand.
const TAIL_LINES: usize = 4;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: u64 = 4096;

/// What one is started with.
pub(super) struct Asked<'a> {
    pub(super) arm: LlamaServer,
    /// The model's file, in the directory it is started in.
    pub(super) model: &'a str,
    pub(super) threads: usize,
    pub(super) slots: usize,
    /// Positions of a slot.
    pub(super) slot_positions: usize,
    /// As many as the longest transcript fills.
    pub(super) positions_needed: usize,
}

/// Arguments of llama.cpp's server. Batch sizes stay at their defaults; its cache in RAM is off, since it moves what
/// slots hold and shares nothing; its log says how it is set.
pub(super) fn arguments(asked: &Asked<'_>, port: &str, scratch: &str) -> Vec<String> {
    let number = |number: usize| number.to_string();
    let (context, http) = (asked.slots * asked.slot_positions, asked.slots + 2);
    let fused = if asked.arm.flash_attention {
        "on"
    } else {
        "off"
    };
    let mut arguments: Vec<String> = ["-m", asked.model, "--host", "127.0.0.1", "--port", port]
        .map(str::to_owned)
        .to_vec();
    for (flag, value) in [
        ("-c", number(context)),
        ("-np", number(asked.slots)),
        ("-t", number(asked.threads)),
        ("-fa", fused.to_owned()),
        ("--cache-ram", number(0)),
        ("--threads-http", number(http)),
        ("-lv", number(4)),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    arguments.push("--no-kv-unified".to_owned());
    if asked.arm.copies_prefix {
        arguments.extend(["--slot-save-path".to_owned(), scratch.to_owned()]);
    }
    arguments
}

/// A port nobody listens on now.
pub(super) fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// The beginning and the end of what it wrote.
#[derive(Default)]
struct Log {
    head: Vec<String>,
    tail: VecDeque<String>,
}

/// A running server; one that was started ends with its owner, one that ran before stays.
pub(super) struct Started {
    child: Option<Child>,
    log: Arc<Mutex<Log>>,
    pub(super) address: SocketAddr,
}

impl Started {
    /// Starts `program` where the model is.
    pub(super) fn new(
        program: &Path,
        arguments: &[String],
        directory: &Path,
        port: u16,
    ) -> std::io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            // Its settings are those of its arguments.
            if name.to_string_lossy().starts_with("LLAMA_ARG_") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn()?;
        let log = Arc::new(Mutex::new(Log::default()));
        if let Some(pipe) = child.stderr.take() {
            let log = Arc::clone(&log);
            thread::spawn(move || keep(pipe, &log));
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self {
            child: Some(child),
            log,
            address,
        })
    }

    /// One that ran before: it is not ours to end, and its log and its memory are not seen.
    pub(super) fn attached(address: SocketAddr) -> Self {
        Self {
            child: None,
            log: Arc::default(),
            address,
        }
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// What it wrote first.
    pub(super) fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.head.join("\n")
    }

    /// What it wrote last.
    pub(super) fn last_words(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = log.tail.iter().map(String::as_str).collect();
        if self.child.is_none() {
            "it was not started here, and its own log says more".to_owned()
        } else if words.is_empty() {
            "it said nothing".to_owned()
        } else {
            format!("it said {:?}", words.join(" / "))
        }
    }

    /// Most memory it had, in bytes, where the system tells.
    pub(super) fn rss_bytes_peak(&self) -> Option<u64> {
        let process = self.child.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}

/// Reads a log to its end, so that it can never fill its pipe and stop the server.
fn keep(pipe: impl Read, log: &Mutex<Log>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match pipe
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if text.is_empty() {
            continue;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.head.len() < HEAD_LINES {
            log.head.push(text.clone());
        }
        if log.tail.len() == TAIL_LINES {
            log.tail.pop_front();
        }
        log.tail.push_back(text);
    }
}
