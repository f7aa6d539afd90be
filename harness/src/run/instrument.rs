//! What the harness itself takes: a scripted session through the same recorder and a pipe like that of an arm's process.
//!
//! Not here: what becomes of the figures (`workloads::instrument`).

use std::io::{BufRead, BufReader, PipeWriter};
use std::thread;
use std::time::Instant;

use baselines::{ArmJob, Host, Servers};
use workloads::arm::MOCK;
use workloads::envelope::{Envelope, Overrides, ResolvedEnvelope};
use workloads::instrument::Instrument;
use workloads::mock::Script;
use workloads::statistics::median_u64;
use workloads::trace::{Body, Line, TraceWriter};

use crate::error::Error;

/// The envelope whose session is asked, with a script of its own: steps of equal length.
const ENVELOPE: &str = "instrument";
const STEP_NS: u64 = 20_000;
/// Readings of the clock, and lines written.
const READINGS: usize = 1_000;
const LINES: usize = 200;

/// Measures in some milliseconds.
pub(super) fn measure() -> Result<Instrument, Error> {
    let start = Instant::now();
    let clock = move || start.elapsed().as_nanos() as u64;
    let (recorded, _) = through_a_pipe(|out| {
        let job = job().map_err(|error| error.to_string())?;
        let host = Host {
            clock: &clock,
            peak_rss: &|| None,
            abandoned: &|| false,
        };
        baselines::run_arm(&job, &host, out).map_err(|error| error.to_string())
    })?;
    let lags_ns = recorded.iter().filter_map(|line| match line.body {
        Body::Step { wall_ns, .. } => Some(wall_ns.saturating_sub(STEP_NS)),
        _ => None,
    });
    let mut writes_ns = Vec::new();
    let (_, parses_ns) = through_a_pipe(|out| {
        writes_ns = write_lines(out, &clock).map_err(|error| error.to_string())?;
        Ok(())
    })?;
    let median = |times_ns: &[u64]| median_u64(times_ns).unwrap_or_default();
    Ok(Instrument::new(
        clock_step_ns(&clock),
        median(&lags_ns.collect::<Vec<_>>()),
        median(&writes_ns),
        median(&parses_ns),
    ))
}

/// One agent, two turns, steps of equal length.
fn job() -> Result<ArmJob, workloads::Error> {
    let envelope = Envelope::named(ENVELOPE)?.resolve(&Overrides::default(), 1)?;
    let mut workload = envelope.workload;
    (workload.agents, workload.turns, workload.decode) = (1, 2, 32);
    Ok(ArmJob {
        envelope: ResolvedEnvelope {
            workload,
            mock: Some(Script {
                step_ns: STEP_NS,
                prefill_ns_per_token: 0,
                decode_ns_per_token: 0,
                jitter_thousandths: 0,
            }),
            ..envelope
        },
        arm: MOCK.name.to_owned(),
        rep: 0,
        model_path: None,
        perturbed: false,
        servers: Servers::default(),
    })
}

/// Has `write` fill a pipe while its lines are read at the other end, as those of an arm's process are; also how long
/// each took to read.
fn through_a_pipe(
    write: impl FnOnce(PipeWriter) -> Result<(), String>,
) -> Result<(Vec<Line>, Vec<u64>), Error> {
    let failed =
        |why: String| Error::Unreachable(format!("the harness cannot measure itself: {why}"));
    let (reader, writer) = std::io::pipe().map_err(|error| failed(error.to_string()))?;
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut lines, mut times_ns) = (Vec::new(), Vec::new());
            for text in BufReader::new(reader).lines() {
                let text = text.map_err(|error| error.to_string())?;
                let begun = Instant::now();
                let line = serde_json::from_str(&text).map_err(|error| error.to_string())?;
                times_ns.push(begun.elapsed().as_nanos() as u64);
                lines.push(line);
            }
            Ok::<_, String>((lines, times_ns))
        });
        let written = write(writer);
        let read = reading
            .join()
            .unwrap_or_else(|_| Err("the reader of the pipe stopped".to_owned()));
        written.and(read).map_err(failed)
    })
}

/// Writes lines of the kind that stands in a trace most often; how long each took.
fn write_lines(out: PipeWriter, clock: &dyn Fn() -> u64) -> std::io::Result<Vec<u64>> {
    let mut trace = TraceWriter::new(out);
    (0..LINES)
        .map(|_| {
            let begun_ns = clock();
            let body = Body::Step {
                phase: "decode".to_owned(),
                rows: 1,
                requests: 1,
                wall_ns: STEP_NS,
            };
            trace.write(begun_ns, body)?;
            Ok(clock().saturating_sub(begun_ns))
        })
        .collect()
}

/// The median of the steps that the clock is seen to make.
fn clock_step_ns(clock: &dyn Fn() -> u64) -> u64 {
    let readings: Vec<u64> = (0..READINGS).map(|_| clock()).collect();
    let steps = readings.windows(2).map(|pair| pair[1] - pair[0]);
    let seen: Vec<u64> = steps.filter(|&step| step > 0).collect();
    median_u64(&seen).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_sum_of_four_parts_and_something() {
        let it = measure().unwrap();
        let parts = [
            it.clock_step_ns,
            it.step_lag_ns,
            it.line_write_ns,
            it.line_parse_ns,
        ];
        // A coarse clock may see single parts take no time.
        assert_eq!(it.floor_ns, parts.iter().sum::<u64>());
        assert!(it.floor_ns > 0, "{it:?}");
    }
}
