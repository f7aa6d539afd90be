//! One repetition of one arm in its own process: job in on stdin, as one line, trace lines out on
//! stdout, kept as they arrive.
//!
//! Whatever happens to the process, its trace ends in `end` or `error`. Not here: which arms run
//! and in which order (`plan`), and what the lines add up to (`workloads::summary`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use workloads::trace::{Body, Line, sha256_hex};

use super::watch::Watched;
use crate::error::Error;
use crate::files;

/// What is kept of an arm's standard error: enough for a message and its cause.
const STDERR_BYTES_MAX: u64 = 16 << 10;

/// An arm says something at every step of the engine; one that is silent for so long hangs. Programs of others have
/// the limit of their envelope.
const SILENCE_MAX: Duration = Duration::from_secs(2 * 60 * 60);

/// How long an arm may be silent whose program may take so long: longer than that, and a minute for what is done before
/// and after.
pub(super) fn patience(limit_s: u64) -> Duration {
    SILENCE_MAX.max(Duration::from_secs(limit_s.saturating_add(60)))
}

/// A trace on disk and how far it has come.
struct Recorder {
    file: File,
    lines: Vec<Line>,
    last_sha256: String,
}

impl Recorder {
    fn new(file: File) -> Self {
        Self {
            file,
            lines: Vec::new(),
            last_sha256: "0".repeat(64),
        }
    }

    fn append(&mut self, text: &str, line: Line) -> std::io::Result<()> {
        self.file.write_all(format!("{text}\n").as_bytes())?;
        self.last_sha256 = sha256_hex(text.as_bytes());
        self.lines.push(line);
        Ok(())
    }

    fn ended(&self) -> bool {
        let last = self.lines.last().map(|line| &line.body);
        matches!(
            last,
            Some(
                Body::End { .. }
                    | Body::EndExternal { .. }
                    | Body::EndServer(_)
                    | Body::EndScore(_)
                    | Body::Error { .. }
            )
        )
    }

    /// A line that the arm itself could no longer write.
    fn append_own(&mut self, body: Body) -> std::io::Result<()> {
        let line = Line {
            seq: self.lines.len() as u64,
            prev: self.last_sha256.clone(),
            t_ns: self.lines.last().map_or(0, |line| line.t_ns),
            body,
        };
        let text = serde_json::to_string(&line).map_err(std::io::Error::other)?;
        self.append(&text, line)
    }
}

/// Runs `command` with `job` on its standard input, writes its trace to `trace`, and returns the
/// lines. `begin` is what the trace starts with if the arm dies before it can say so itself.
pub(super) fn record(
    command: Command,
    job: &str,
    trace: &Path,
    begin: Option<Body>,
    on_line: &mut dyn FnMut(&Line),
) -> Result<Vec<Line>, Error> {
    record_within(SILENCE_MAX, command, job, trace, begin, on_line)
}

/// The same for an arm that may be silent for so long.
pub(super) fn record_within(
    silence_max: Duration,
    mut command: Command,
    job: &str,
    trace: &Path,
    begin: Option<Body>,
    on_line: &mut dyn FnMut(&Line),
) -> Result<Vec<Line>, Error> {
    let failed = |source| Error::io("cannot write", trace, source);
    let file = File::create_new(trace).map_err(failed)?;
    let mut recorder = Recorder::new(file);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let unstarted =
        |error| Error::Unreachable(format!("cannot start the process of an arm: {error}"));
    let mut child = command.spawn().map_err(unstarted)?;
    let complaint = collect_stderr(&mut child);
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let child = Watched::new(child, silence_max);
    let handed = input.map(|mut input| {
        // A child that died before reading is reported by its exit status below.
        let _ = input.write_all(format!("{job}\n").as_bytes());
        input
    });
    child.keep(handed);
    let heard = &mut |line: &Line| {
        child.heard();
        on_line(line);
    };
    let copied = match output {
        Some(output) => copy_lines(output, &mut recorder, heard),
        None => Ok(None),
    };
    match copied {
        Ok(None) => child.keep(None), // it has said all it will
        _ => child.end(),
    }
    let (status, was_silent) = child.wait().map_err(unstarted)?;
    let garbled = copied.map_err(failed)?.or_else(|| {
        let seconds = silence_max.as_secs();
        was_silent.then(|| format!("the arm's process said nothing for {seconds} s and was ended"))
    });
    let complaint = complaint
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    if !recorder.ended() {
        let message = garbled.unwrap_or_else(|| obituary(status, &complaint));
        let begin = begin.filter(|_| recorder.lines.is_empty());
        begin
            .map_or(Ok(()), |body| recorder.append_own(body))
            .map_err(failed)?;
        recorder
            .append_own(Body::Error { message })
            .map_err(failed)?;
    }
    recorder.file.sync_all().map_err(failed)?;
    if let Some(directory) = trace.parent() {
        files::sync_directory(directory).map_err(failed)?;
    }
    Ok(recorder.lines)
}

/// Reads standard error beside the trace, so that neither pipe can fill and stop the arm.
fn collect_stderr(child: &mut Child) -> Option<thread::JoinHandle<String>> {
    let mut pipe = child.stderr.take()?;
    Some(thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = pipe.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut kept);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        String::from_utf8_lossy(&kept).trim().to_owned()
    }))
}

/// Appends whole lines until the pipe closes; says what was wrong if one of them was no trace line.
fn copy_lines(
    output: impl Read,
    recorder: &mut Recorder,
    on_line: &mut dyn FnMut(&Line),
) -> std::io::Result<Option<String>> {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while !recorder.ended() {
        bytes.clear();
        let count = output.read_until(b'\n', &mut bytes)?;
        if count == 0 || bytes.pop() != Some(b'\n') {
            return Ok(None); // the process is gone; half a line says nothing
        }
        let number = recorder.lines.len() + 1;
        let text = String::from_utf8_lossy(&bytes);
        match serde_json::from_str::<Line>(&text) {
            Ok(line) if line.prev == recorder.last_sha256 => {
                recorder.append(&text, line)?;
                recorder.lines.last().into_iter().for_each(&mut *on_line);
            }
            Ok(_) => return Ok(Some(format!("line {number} does not continue the chain"))),
            Err(error) => {
                return Ok(Some(format!("line {number} is not a trace line: {error}")));
            }
        }
    }
    Ok(None)
}

fn obituary(status: ExitStatus, complaint: &str) -> String {
    let said = if complaint.is_empty() {
        "it said nothing"
    } else {
        complaint
    };
    format!("the arm's process stopped before its trace was complete ({status}): {said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> (tempfile::TempDir, Recorder) {
        let root = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(File::create_new(root.path().join("trace")).unwrap());
        (root, recorder)
    }

    fn trace(bodies: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = workloads::trace::TraceWriter::new(&mut bytes);
        for index in 0..bodies {
            let body = Body::Text {
                name: index.to_string(),
                ids: vec![1],
            };
            writer.write(index as u64, body).unwrap();
        }
        bytes
    }

    #[test]
    fn a_trace_cut_anywhere_keeps_its_whole_lines_and_gets_a_chained_end() {
        let whole = trace(3);
        for cut in 0..=whole.len() {
            let (root, mut recorder) = recorder();
            let garbled = copy_lines(&whole[..cut], &mut recorder, &mut |_| {}).unwrap();
            assert_eq!(garbled, None);
            recorder
                .append_own(Body::Error {
                    message: "gone".to_owned(),
                })
                .unwrap();
            let text = std::fs::read_to_string(root.path().join("trace")).unwrap();
            let kept = String::from_utf8_lossy(&whole[..cut]).matches('\n').count();
            assert_eq!(text.lines().count(), kept + 1);
            let mut prev = "0".repeat(64);
            for (index, line) in text.lines().enumerate() {
                let parsed: Line = serde_json::from_str(line).unwrap();
                assert_eq!((parsed.seq, parsed.prev), (index as u64, prev));
                prev = sha256_hex(line.as_bytes());
            }
        }
    }

    #[test]
    fn words_on_the_trace_pipe_never_reach_the_trace() {
        for noise in ["hello\n", "{}\n", "\u{fffd}\n", "[[[[\n"] {
            let (root, mut recorder) = recorder();
            let mut bytes = trace(1);
            bytes.extend(noise.as_bytes());
            let garbled = copy_lines(&bytes[..], &mut recorder, &mut |_| {}).unwrap();
            assert!(garbled.unwrap().contains("line 2"));
            assert_eq!(std::fs::read(root.path().join("trace")).unwrap(), trace(1));
        }
    }

    #[test]
    fn a_line_from_another_chain_is_refused() {
        let (_root, mut recorder) = recorder();
        let twice = [trace(1), trace(1)].concat();
        let garbled = copy_lines(&twice[..], &mut recorder, &mut |_| {}).unwrap();
        assert!(garbled.unwrap().contains("chain"));
    }

    /// What `record` keeps of a shell script that plays an arm, and its last words.
    fn played(script: &str, begin: Option<Body>) -> (Vec<Line>, String) {
        played_within(SILENCE_MAX, script, begin)
    }

    fn played_within(
        silence_max: Duration,
        script: &str,
        begin: Option<Body>,
    ) -> (Vec<Line>, String) {
        let root = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let path = root.path().join("trace");
        let lines = record_within(silence_max, command, "job", &path, begin, &mut |_| {}).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(kept.lines().count(), lines.len());
        let Some(Body::Error { message }) = lines.last().map(|line| line.body.clone()) else {
            panic!("the trace has no error at its end: {kept}");
        };
        (lines, message)
    }

    #[test]
    fn a_process_that_dies_leaves_a_record_with_its_last_words() {
        let line = String::from_utf8(trace(1)).unwrap();
        let script = format!(
            "read job; echo '{}'; echo oops >&2; kill -9 $$",
            line.trim()
        );
        let (lines, message) = played(&script, None);
        assert_eq!(lines.len(), 2);
        assert!(
            message.contains("oops") && message.contains('9'),
            "{message}"
        );
    }

    #[test]
    fn a_process_that_dies_at_once_gets_the_beginning_it_would_have_had() {
        let begin = Body::Text {
            name: "stands for begin".to_owned(),
            ids: Vec::new(),
        };
        let (lines, message) = played("exit 3", Some(begin.clone()));
        assert_eq!((lines.len(), &lines[0].body), (2, &begin));
        assert!(
            message.contains("exit status: 3") && message.contains("nothing"),
            "{message}"
        );
        assert_eq!(played("exit 3", None).0.len(), 1);
    }

    #[test]
    fn a_program_is_waited_for_until_its_own_limit() {
        let day_s = 86_400;
        assert!(patience(day_s) > Duration::from_secs(day_s));
        assert_eq!(patience(1), SILENCE_MAX);
    }

    #[test]
    fn a_process_that_hangs_is_ended_and_keeps_what_it_said() {
        let line = String::from_utf8(trace(1)).unwrap();
        let speaks = format!("read job; echo '{}'; exec sleep 600", line.trim());
        let closes = format!("read job; echo '{}'; exec sleep 600 >&- 2>&-", line.trim());
        for script in [speaks, closes] {
            // Longer each time: a busy machine may start a shell late.
            let mut limits = (0..8).map(|doubled| Duration::from_millis(300 << doubled));
            let heard = limits.find_map(|limit| {
                let (lines, message) = played_within(limit, &script, None);
                assert!(message.contains("said nothing"), "{script}: {message}");
                (lines.len() == 2).then_some(())
            });
            assert!(heard.is_some(), "{script}: it was never heard");
        }
    }

    #[test]
    fn a_process_learns_by_the_end_of_its_input_that_it_is_ended() {
        let root = tempfile::tempdir().unwrap();
        let left = root.path().join("left");
        let line = String::from_utf8(trace(1)).unwrap();
        let script = format!(
            "read job; echo '{}'; cat >/dev/null; echo done > {}",
            line.trim(),
            left.display()
        );
        let (_, message) = played_within(Duration::from_secs(2), &script, None);
        assert!(left.exists(), "{message}");
    }

    #[test]
    #[cfg(target_os = "linux")] // others have no such device; whole-program tests limit the size of files there
    fn a_trace_that_cannot_be_written_ends_the_process_too() {
        let path = Path::new("/dev/full");
        let mut command = Command::new("sh");
        let line = String::from_utf8(trace(1)).unwrap();
        command.args(["-c", &format!("echo '{}'; exec sleep 600", line.trim())]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let watched = Watched::new(child, SILENCE_MAX);
        let mut recorder = Recorder::new(File::options().write(true).open(path).unwrap());
        let full = copy_lines(output, &mut recorder, &mut |_| {}).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        watched.end();
        let (status, was_silent) = watched.wait().unwrap();
        assert!(!status.success() && !was_silent);
    }

    #[test]
    fn a_process_that_talks_too_much_cannot_stop_the_run() {
        let script = "yes complaint | head -c 1000000 >&2; yes no trace line | head -c 1000000";
        let (lines, message) = played(script, None);
        assert_eq!(lines.len(), 1);
        assert!(message.contains("line 1 is not a trace line"), "{message}");
    }
}
