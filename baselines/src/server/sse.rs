//! Server-sent events out of bytes, however they were cut on their way.
//!
//! Not here: what an event says (`protocol`).

/// Most bytes of one event: an answer of a hundred thousand tokens in one piece is smaller.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Bytes that are no whole line yet, and the lines of data that are no whole event yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Option<String>,
}

impl Events {
    /// The events that `bytes` complete, in order.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
            if held > EVENT_BYTES_MAX {
                return Err(format!("an event has more than {EVENT_BYTES_MAX} bytes"));
            }
            if piece.ends_with(b"\n") {
                events.extend(self.whole_line()?);
            }
        }
        Ok(events)
    }

    /// Ends the stream: what is left if it ends without an empty line.
    pub(crate) fn end(&mut self) -> Result<Option<String>, String> {
        if !self.line.is_empty() {
            self.line.push(b'\n');
            self.whole_line()?;
        }
        Ok(self.data.take())
    }

    /// Takes the line that just ended; the event, if the line ends one.
    fn whole_line(&mut self) -> Result<Option<String>, String> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| "an event is no UTF-8".to_owned())?;
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            return Ok(self.data.take());
        }
        if let Some(data) = line.strip_prefix("data:") {
            let data = data.strip_prefix(' ').unwrap_or(data);
            match &mut self.data {
                Some(before) => {
                    before.push('\n');
                    before.push_str(data);
                }
                None => self.data = Some(data.to_owned()),
            }
        }
        Ok(None) // comments, and fields nobody here has a use for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\r\ndata: {\"a\":\"ü\"}\r\n\r\nevent: x\ndata: one\ndata:two\n\n\n\ndata: [DONE]\n\n";

    #[test]
    fn events_are_the_same_however_the_bytes_were_cut() {
        let whole = Events::default().push(STREAM.as_bytes()).unwrap();
        assert_eq!(whole, ["{\"a\":\"ü\"}", "one\ntwo", "[DONE]"]);
        for first in 0..STREAM.len() {
            for second in first..STREAM.len() {
                let mut events = Events::default();
                let mut found = Vec::new();
                for part in [0..first, first..second, second..STREAM.len()] {
                    found.extend(events.push(&STREAM.as_bytes()[part]).unwrap());
                }
                assert_eq!(found, whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn an_event_without_its_empty_line_counts_at_the_end_of_the_stream() {
        let mut events = Events::default();
        assert!(events.push(b"data: last").unwrap().is_empty());
        assert_eq!(events.end().unwrap().as_deref(), Some("last"));
        assert_eq!(events.end().unwrap(), None);
    }

    #[test]
    fn endless_lines_and_other_bytes_than_text_are_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..8).any(|_| events.push(&piece).is_err());
        assert!(refused);
        assert!(Events::default().push(b"data: \xff\n").is_err());
    }
}
