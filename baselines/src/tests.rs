//! Sessions driven over a scripted arm: order, times, sums, and arms that misbehave.
//!
//! Not here: the real engine (baselines/tests).

use std::cell::Cell;
use std::io::{self, Write};

use engine::{Counters, Event, FinishReason, Phase, Request, Sink};
use workloads::envelope::{Envelope, Order, Quarantine, Workload};
use workloads::session::SessionPlan;
use workloads::trace::{Base, Body, Line, ids_sha256};

use crate::drive::Session;
use crate::recorder::Recorder;
use crate::{Arm, Error, Kv, Quarantined, Report};

/// How a scripted arm departs from what is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    Stops,
    Babbles,
    Miscounts,
}

/// Answers one request per step, the newest first, each token its prompt's length.
struct Scripted {
    waiting: Vec<Request>,
    counters: Counters,
    waiting_max: usize,
    flaw: Flaw,
    /// What was taken out: where it begins, and the text to its end.
    cut: Vec<(usize, Vec<u32>)>,
}

impl Arm for Scripted {
    fn submit(&mut self, request: Request) -> Result<(), Error> {
        self.waiting.push(request);
        self.waiting_max = self.waiting_max.max(self.waiting.len());
        Ok(())
    }

    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
        if self.flaw == Flaw::Stops && self.counters.decode_tokens > 20 {
            return Ok(false);
        }
        let Some(Request {
            id,
            prompt,
            decode_max,
            ..
        }) = self.waiting.pop()
        else {
            return Ok(false);
        };
        let request = if self.flaw == Flaw::Babbles {
            id + 1000
        } else {
            id
        };
        let computed = prompt.len();
        sink.event(Event::Prefix {
            request,
            own: 0,
            instance: 0,
            store: 0,
            barred_at: None,
            approximate: false,
        });
        sink.event(Event::Prefill {
            request,
            computed,
            carried: 0,
            replayed: 0,
            chunks: 1,
        });
        for _ in 0..decode_max {
            sink.event(Event::Token {
                request,
                id: computed as u32,
                batch: 1,
                logprobs: &[],
            });
        }
        let reason = FinishReason::Length;
        sink.event(Event::Finish {
            request,
            reason,
            logits: &[0.5, computed as f32],
        });
        sink.event(Event::Step {
            phase: Phase::Prefill,
            rows: computed,
            requests: 1,
        });
        self.counters.prefill_tokens_computed += computed as u64;
        self.counters.decode_tokens += decode_max as u64;
        Ok(true)
    }

    fn report(&self) -> Report {
        let mut counters = self.counters;
        counters.replayed_tokens += u64::from(self.flaw == Flaw::Miscounts);
        Report {
            counters,
            kv_bytes_peak: 4096,
        }
    }

    fn quarantine(&mut self, ids: &[u32], start: usize) -> Result<Quarantined, Error> {
        self.cut.push((start, ids.to_vec()));
        Ok(Quarantined {
            pages: 0,
            running: self.waiting.len(),
        })
    }

    fn kv(&self) -> Result<Kv, Error> {
        Ok(Kv::default())
    }
}

fn workload() -> Workload {
    Workload {
        turns: 3,
        ..Envelope::named("smoke").unwrap().workload
    }
}

/// Drives a session on a clock that advances by one at every look.
fn drive(flaw: Flaw, batched: bool, out: impl Write) -> (Result<(), Error>, Scripted) {
    drive_workload(workload(), flaw, batched, out)
}

fn drive_workload(
    workload: Workload,
    flaw: Flaw,
    batched: bool,
    out: impl Write,
) -> (Result<(), Error>, Scripted) {
    let now = Cell::new(0);
    let clock = || now.replace(now.get() + 1);
    let mut recorder = Recorder::new(out, &clock);
    let mut arm = Scripted {
        waiting: Vec::new(),
        counters: Counters::default(),
        waiting_max: 0,
        flaw,
        cut: Vec::new(),
    };
    let session = Session {
        plan: SessionPlan::new(&workload, 0..500).unwrap(),
        workload,
        batched,
    };
    let driven = session.drive(&mut arm, &mut recorder);
    let outcome = driven.and_then(|()| recorder.end(&arm.report(), 1, 2, Some(3)));
    (outcome, arm)
}

/// The lines of a flawless session, and how many requests waited at once.
fn session(batched: bool) -> (Vec<Line>, usize) {
    let mut out = Vec::new();
    let (outcome, arm) = drive(Flaw::None, batched, &mut out);
    outcome.unwrap();
    (lines_of(out), arm.waiting_max)
}

fn lines_of(out: Vec<u8>) -> Vec<Line> {
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request_id(line: &Line) -> Option<&str> {
    match &line.body {
        Body::Request { id, .. } => Some(id),
        _ => None,
    }
}

fn requests(lines: &[Line]) -> Vec<&str> {
    lines.iter().filter_map(request_id).collect()
}

#[test]
fn a_serial_session_goes_through_the_agents_turn_by_turn() {
    let (lines, waiting_max) = session(false);
    let order = [
        "a0-t0", "a1-t0", "a2-t0", "a0-t1", "a1-t1", "a2-t1", "a0-t2", "a1-t2", "a2-t2",
    ];
    assert_eq!(requests(&lines), order);
    assert_eq!(waiting_max, 1);
}

#[test]
fn a_batched_session_submits_a_turn_as_soon_as_the_last_is_answered() {
    let (lines, waiting_max) = session(true);
    // The arm answers the newest first, so the last agent runs ahead of the others.
    let order = [
        "a0-t0", "a1-t0", "a2-t0", "a2-t1", "a2-t2", "a1-t1", "a1-t2", "a0-t1", "a0-t2",
    ];
    assert_eq!(requests(&lines), order);
    assert_eq!(waiting_max, 3);
}

#[test]
fn agents_one_after_the_other_each_play_their_whole_session_batched_or_not() {
    let one_by_one = Workload {
        order: Order::Agents,
        ..workload()
    };
    let order = [
        "a0-t0", "a0-t1", "a0-t2", "a1-t0", "a1-t1", "a1-t2", "a2-t0", "a2-t1", "a2-t2",
    ];
    for batched in [false, true] {
        let mut out = Vec::new();
        let (outcome, arm) = drive_workload(one_by_one.clone(), Flaw::None, batched, &mut out);
        outcome.unwrap();
        assert_eq!(requests(&lines_of(out)), order);
        assert_eq!(arm.waiting_max, 1);
    }
}

#[test]
fn a_result_is_taken_out_once_the_turn_that_read_it_is_answered_and_before_the_next() {
    let mut bad = workload();
    bad.quarantine = Some(Quarantine { turn: 1, agents: 2 });
    for batched in [false, true] {
        let mut out = Vec::new();
        let (outcome, arm) = drive_workload(bad.clone(), Flaw::None, batched, &mut out);
        outcome.unwrap();
        // Prefix, answer and result of `smoke`.
        let (start, end) = (100 + 8, 100 + 8 + 12);
        let cut: Vec<(usize, usize)> = arm.cut.iter().map(|it| (it.0, it.1.len())).collect();
        assert_eq!(cut, [(start, end); 2]);
        let lines = lines_of(out);
        let place = |wanted: &dyn Fn(&Body) -> bool| {
            lines.iter().position(|line| wanted(&line.body)).unwrap()
        };
        for agent in 0..2 {
            let (this, next) = (format!("a{agent}-t1"), format!("a{agent}-t2"));
            let finish =
                place(&|body| matches!(body, Body::Finish { request, .. } if *request == this));
            let taken =
                place(&|body| matches!(body, Body::Quarantine { request, .. } if *request == this));
            let asked = place(&|body| matches!(body, Body::Request { id, .. } if *id == next));
            assert!(finish < taken && taken < asked);
        }
        let taken = |line: &&Line| matches!(line.body, Body::Quarantine { .. });
        assert_eq!(lines.iter().filter(taken).count(), 2);
    }
}

#[test]
fn every_prompt_can_be_rebuilt_from_base_keep_and_append() {
    let (lines, _) = session(true);
    let mut said: Vec<(String, Vec<u32>)> = Vec::new();
    for line in &lines {
        match &line.body {
            Body::Text { name, ids } => said.push((name.clone(), ids.clone())),
            Body::Request {
                id,
                base,
                keep,
                append,
                prompt_len,
                prompt_sha256,
                ..
            } => {
                let Some(Base::Text(name) | Base::Request(name)) = base else {
                    panic!("{id} has no base");
                };
                let (_, base) = said.iter().find(|(known, _)| known == name).unwrap();
                let prompt = [&base[..*keep], append].concat();
                assert_eq!(
                    (prompt.len(), ids_sha256(&prompt)),
                    (*prompt_len, prompt_sha256.clone())
                );
                said.push((id.clone(), prompt));
            }
            Body::Finish { request, ids, .. } => {
                let (_, prompt) = said.iter_mut().find(|(known, _)| known == request).unwrap();
                prompt.extend(ids);
            }
            _ => {}
        }
    }
    assert_eq!(said.len(), 10);
}

#[test]
fn the_last_line_sums_up_what_the_lines_before_it_say() {
    let (lines, _) = session(false);
    let (mut steps_ns, mut computed_sum, mut first_ns, mut last_ns) = (0, 0, None, 0);
    for line in &lines {
        match &line.body {
            Body::Request { .. } => first_ns = first_ns.or(Some(line.t_ns)),
            Body::Prefill { computed, .. } => computed_sum += *computed as u64,
            Body::Step { wall_ns, .. } => steps_ns += wall_ns,
            Body::Finish {
                token_t_ns,
                batch,
                ids,
                ..
            } => {
                last_ns = line.t_ns;
                assert_eq!((token_t_ns.len(), batch.len(), ids.len()), (8, 8, 8));
                assert!(token_t_ns.is_sorted());
            }
            _ => {}
        }
    }
    let Body::End {
        requests,
        prefill_tokens_computed,
        wall_ns,
        prefill_ns,
        decode_ns,
        ..
    } = lines.last().unwrap().body
    else {
        panic!("no end");
    };
    // Lengths 100, 120 and 140, three agents.
    assert_eq!(
        (requests, prefill_tokens_computed, computed_sum),
        (9, 1080, 1080)
    );
    assert_eq!(wall_ns, last_ns - first_ns.unwrap());
    assert_eq!((prefill_ns, decode_ns), (steps_ns, 0));
    assert!(lines.is_sorted_by_key(|line| line.t_ns));
}

#[test]
fn an_arm_that_stops_babbles_or_miscounts_is_found_out() {
    for (flaw, part) in [
        (Flaw::Stops, "it stopped with 1 requests open"),
        (Flaw::Babbles, "request 1000, which is not open"),
        (Flaw::Miscounts, "replayed_tokens: 1"),
    ] {
        let (outcome, _) = drive(flaw, false, io::sink());
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(part), "`{part}` not in: {error}");
    }
}

/// Takes so many bytes and no more, like a full disk.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_cannot_be_written_ends_the_session_wherever_it_happens() {
    let mut whole = Vec::new();
    drive(Flaw::None, true, &mut whole).0.unwrap();
    for room in (0..whole.len()).step_by(97) {
        let (outcome, _) = drive(Flaw::None, true, Full(room));
        assert!(
            matches!(outcome, Err(Error::Write(_))),
            "room for {room} bytes"
        );
    }
}
