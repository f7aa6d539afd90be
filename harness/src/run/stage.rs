//! Every process of a session in its order, each trace kept, and afterwards the scores of what other engines answered.
//!
//! Not here: one process (`process`), the order (`plan`), what the traces add up to (`workloads::summary`).

use std::fs;
use std::path::{Path, PathBuf};

use baselines::{ArmJob, ScoreJob};
use workloads::arm::{is_server, stem};
use workloads::envelope::ResolvedEnvelope;
use workloads::trace::server::{BeginScore, BeginServer};
use workloads::trace::{Body, Line, TRACE_SCHEMA};

use super::process::{self, patience};
use super::progress::Progress;
use super::servers::Servers;
use super::{Traced, arm, own_process, plan, unsealed};
use crate::error::Error;
use crate::files::{self, Scratch};
use crate::table::counted;
use crate::world::World;

/// What every process of a session is given.
pub(super) struct Stage<'a> {
    pub(super) envelope: &'a ResolvedEnvelope,
    /// None for a model that is built from a seed.
    pub(super) model_path: Option<&'a Path>,
    pub(super) servers: &'a Servers,
    pub(super) directory: &'a Path,
    pub(super) world: &'a World,
}

impl<'a> Stage<'a> {
    /// Plays every repetition of every arm that is not among `traces`, the first ones in order.
    pub(super) fn play_all(&self, mut traces: Vec<Traced<'a>>) -> Result<Vec<Traced<'a>>, Error> {
        let order = plan::order(self.envelope).split_off(traces.len());
        if let Some((_, rep)) = order.first().filter(|_| !traces.is_empty()) {
            let done = counted(*rep, "round");
            self.world.say(&format!("{done} done before, and kept"));
        }
        let requests = order.iter().map(|(arm, _)| self.envelope.requests_of(arm));
        let (requests, rounds) = (requests.sum::<usize>() as u64, rounds(&order));
        let mut progress = Progress::new(requests, "requests", rounds, self.world.terminal);
        let mut begin = begin_of_ours(&traces);
        for (arm, rep) in order {
            progress.start(arm, rep);
            let lines = self.play(arm, rep, begin.as_ref(), &mut |line| {
                if matches!(line.body, Body::Finish { .. } | Body::Answer(_)) {
                    progress.advance();
                }
            })?;
            progress.end(arm, ending(&lines));
            match lines.first().map(|line| &line.body) {
                Some(first @ Body::Begin { .. }) => begin = Some(first.clone()),
                Some(Body::BeginServer(server)) => self.same_build(server, arm, rep, &traces)?,
                _ => {
                    let message = ending(&lines).err().unwrap_or_default();
                    let nothing = format!("the first arm did not start: {message}");
                    let error = Error::Unreachable(nothing);
                    return Err(unsealed(&error, self.directory, self.world));
                }
            }
            traces.push(Traced {
                arm,
                rep,
                lines,
                score: None,
            });
        }
        progress.finish();
        Ok(traces)
    }

    /// Refuses a repetition by another build of a server than those before it, which no audit would take, while no more
    /// than this one is lost.
    fn same_build(
        &self,
        server: &BeginServer,
        arm: &str,
        rep: usize,
        traces: &[Traced<'a>],
    ) -> Result<(), Error> {
        let build = |it: &BeginServer| {
            let program = it.program.clone();
            program
                .sha256
                .map(|sha256| (sha256, program.libraries_sha256, program.version))
        };
        let before = traces
            .iter()
            .find_map(|trace| match &trace.lines.first()?.body {
                Body::BeginServer(server) => build(server),
                _ => None,
            });
        let Some((before, now)) = before
            .zip(build(server))
            .filter(|(before, now)| before != now)
        else {
            return Ok(());
        };
        let path = self.trace(&stem(arm, rep));
        fs::remove_file(&path).map_err(|source| Error::io("cannot remove", &path, source))?;
        let (before, now) = (before.2.unwrap_or(before.0), now.2.unwrap_or(now.0));
        let error = Error::Usage(format!(
            "{arm} is answered by another build than the run began with ({before}; now {now}); put that one back and go on with --resume"
        ));
        Err(unsealed(&error, self.directory, self.world))
    }

    /// Plays one repetition in its own process; `begin` is how one of ours began before.
    fn play(
        &self,
        arm: &str,
        rep: usize,
        begin: Option<&Body>,
        on_line: &mut dyn FnMut(&Line),
    ) -> Result<Vec<Line>, Error> {
        let (mut servers, mut limit_s) = (baselines::Servers::default(), 0);
        let (mut scratch, mut fallback) = (None, None);
        if is_server(arm) {
            let own = Scratch::take(&self.world.scratch, "server")?;
            servers = self.servers.told(own.path().to_path_buf());
            limit_s = self.envelope.run.request_limit_s();
            let begin = self.servers.begin(self.envelope, arm, rep);
            fallback = begin.map(Body::BeginServer);
            scratch = Some(own);
        } else if let Some(begin) = begin {
            fallback = begin_of(begin, arm, rep);
        }
        let job = ArmJob {
            envelope: self.envelope.clone(),
            arm: arm.to_owned(),
            rep,
            model_path: self.model_path.map(Path::to_path_buf),
            perturbed: false,
            servers,
        };
        let lines = process::record_within(
            patience(limit_s),
            own_process(self.world),
            &arm::travelling(&job)?,
            &self.trace(&stem(arm, rep)),
            fallback,
            on_line,
        );
        drop(scratch); // whatever the server left in it goes with the process that used it
        lines
    }

    /// Has our model read what other engines answered. Only once every arm has played, so that no time is disturbed.
    pub(super) fn score_all(&self, traces: &mut [Traced<'_>]) -> Result<(), Error> {
        let begin = begin_of_ours(traces);
        let scored: Vec<&mut Traced<'_>> = (traces.iter_mut())
            .filter(|trace| matches!(last(&trace.lines), Some(Body::EndServer(_))))
            .collect();
        if scored.is_empty() {
            return Ok(());
        }
        self.world.say(
            "our model reads what other engines answered, in mode exact; this is in nobody's time",
        );
        let order: Vec<(&str, usize)> = scored.iter().map(|it| (it.arm, it.rep)).collect();
        let requests = order.iter().map(|(arm, _)| self.envelope.requests_of(arm));
        let (requests, rounds) = (requests.sum::<usize>() as u64, rounds(&order));
        let mut progress = Progress::new(requests, "answers", rounds, self.world.terminal);
        for trace in scored {
            let (arm, rep) = (trace.arm, trace.rep);
            progress.start(arm, rep);
            let barred = barred(&trace.lines);
            let lines = self.score((arm, rep), begin.as_ref(), barred, &mut |line| {
                if matches!(line.body, Body::Score(_)) {
                    progress.advance();
                }
            })?;
            progress.end(arm, ending(&lines));
            trace.score = Some(lines);
        }
        progress.finish();
        Ok(())
    }

    fn score(
        &self,
        (arm, rep): (&str, usize),
        begin: Option<&Body>,
        barred: Vec<u32>,
        on_line: &mut dyn FnMut(&Line),
    ) -> Result<Vec<Line>, Error> {
        let name = stem(arm, rep);
        let trace = self.trace(&name);
        let fallback = begin.map(|begin| begin_score(begin, (arm, rep), barred, &trace));
        let fallback = fallback.transpose()?.flatten();
        let job = ScoreJob {
            envelope: self.envelope.clone(),
            scored: arm.to_owned(),
            rep,
            model_path: self.model_path.map(Path::to_path_buf),
            trace,
        };
        process::record(
            own_process(self.world),
            &arm::travelling(&job)?,
            &self.trace(&format!("{name}.score")),
            fallback,
            on_line,
        )
    }

    fn trace(&self, stem: &str) -> PathBuf {
        let traces = self.directory.join("trace");
        traces.join(format!("{stem}.jsonl"))
    }
}

/// How one of ours began.
fn begin_of_ours(traces: &[Traced<'_>]) -> Option<Body> {
    traces.iter().find_map(|trace| match trace.lines.first() {
        Some(line) if matches!(line.body, Body::Begin { .. }) => Some(line.body.clone()),
        _ => None,
    })
}

fn rounds(order: &[(&str, usize)]) -> usize {
    order.iter().map(|(_, rep)| rep + 1).max().unwrap_or(0)
}

/// What a process would have said first, had it not died before: as `begin`, which another process of
/// the same envelope and model wrote, but for this arm and repetition.
fn begin_of(begin: &Body, name: &str, repetition: usize) -> Option<Body> {
    let mut own = begin.clone();
    if let Body::Begin {
        arm, rep, settings, ..
    } = &mut own
    {
        let kind = workloads::arm::named(name).ok()?;
        kind.cache.word().clone_into(&mut settings.cache);
        settings.batched = kind.batched;
        settings.shared_attention = kind.shared_attention;
        name.clone_into(arm);
        *rep = repetition;
    }
    Some(own)
}

/// The same of a process that reads the answers in `trace`.
fn begin_score(
    begin: &Body,
    (name, rep): (&str, usize),
    barred: Vec<u32>,
    trace: &Path,
) -> Result<Option<Body>, Error> {
    let Body::Begin {
        envelope,
        envelope_sha256,
        model_sha256,
        tokenizer_sha256,
        settings,
        ..
    } = begin
    else {
        return Ok(None);
    };
    Ok(Some(Body::BeginScore(BeginScore {
        schema: TRACE_SCHEMA.to_owned(),
        envelope: envelope.clone(),
        envelope_sha256: envelope_sha256.clone(),
        arm: name.to_owned(),
        rep,
        model_sha256: model_sha256.clone(),
        tokenizer_sha256: tokenizer_sha256.clone(),
        trace_sha256: files::file_sha256(trace)?,
        mode: "exact".to_owned(),
        kernels: settings.kernels.clone(),
        threads: settings.threads,
        kv_dtype: "f32".to_owned(),
        barred,
    })))
}

/// Ids that a server said it will not answer with.
fn barred(lines: &[Line]) -> Vec<u32> {
    let ready = lines.iter().find_map(|line| match &line.body {
        Body::Ready(ready) => Some(ready.barred.clone()),
        _ => None,
    });
    ready.unwrap_or_default()
}

fn last(lines: &[Line]) -> Option<&Body> {
    lines.last().map(|line| &line.body)
}

/// How long a process worked, or what it failed with.
fn ending(lines: &[Line]) -> Result<u64, &str> {
    match last(lines) {
        Some(Body::End { wall_ns, .. }) => Ok(*wall_ns),
        Some(Body::EndServer(end)) => Ok(end.wall_ns),
        Some(Body::EndScore(end)) => Ok(end.wall_ns),
        Some(Body::Error { message }) => Err(message),
        _ => Err("its trace has no end"),
    }
}
