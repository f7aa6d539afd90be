//! Trace lines: the chain, the order of fields, and what a reader refuses.
#![allow(clippy::unwrap_used)]

use workloads::trace::{Base, Body, Line, TraceWriter, ids_sha256, sha256_hex};

fn request(base: Option<Base>) -> Body {
    Body::Request {
        id: "a0-t0".to_owned(),
        session: "a0".to_owned(),
        agent: 0,
        turn: 0,
        worker: 0,
        base,
        keep: 2,
        append: vec![5],
        prompt_len: 3,
        prompt_sha256: ids_sha256(&[1, 2, 5]),
        decode_max: 4,
        ignore_eos: true,
        due_ns: None,
    }
}

fn written() -> String {
    let mut out = Vec::new();
    let mut writer = TraceWriter::new(&mut out);
    writer
        .write(
            3,
            Body::Text {
                name: "prefix".to_owned(),
                ids: vec![1, 2],
            },
        )
        .unwrap();
    writer
        .write(9, request(Some(Base::Text("prefix".to_owned()))))
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_line_names_the_hash_of_the_line_before_it() {
    let text = written();
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.ends_with('\n') && lines.len() == 2);
    let zeros = "0".repeat(64);
    let first = format!(
        r#"{{"seq":0,"prev":"{zeros}","t_ns":3,"kind":"text","name":"prefix","ids":[1,2]}}"#
    );
    assert_eq!(lines[0], first);
    let chained = format!(
        r#"{{"seq":1,"prev":"{}","t_ns":9,"kind":"request","#,
        sha256_hex(first.as_bytes())
    );
    assert!(lines[1].starts_with(&chained), "{}", lines[1]);
    assert!(
        lines[1].contains(r#""base":{"text":"prefix"},"keep":2"#),
        "{}",
        lines[1]
    );
}

#[test]
fn lines_read_back_as_they_were_written_and_unknown_fields_are_refused() {
    let text = written();
    for (seq, line) in text.lines().enumerate() {
        let read: Line = serde_json::from_str(line).unwrap();
        assert_eq!(read.seq, seq as u64);
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
    let line = text.lines().next().unwrap();
    for (from, to) in [
        ("\"ids\"", "\"extra\":1,\"ids\""),
        ("\"seq\"", "\"extra\":1,\"seq\""),
        ("\"kind\":\"text\"", "\"kind\":\"words\""),
        ("[1,2]", "[1,-2]"),
        ("[1,2]", "[1,4294967296]"),
        ("\"t_ns\":3,", ""),
    ] {
        let forged = line.replacen(from, to, 1);
        assert_ne!(forged, line);
        assert!(
            serde_json::from_str::<Line>(&forged).is_err(),
            "accepted {forged}"
        );
    }
}

#[test]
fn the_hash_of_ids_is_that_of_their_little_endian_bytes() {
    assert_eq!(
        ids_sha256(&[1, 0x0102_0304]),
        sha256_hex(&[1, 0, 0, 0, 4, 3, 2, 1])
    );
}
