//! Answers without an end, too large, too slow or no text at all; and keys, which nothing may repeat.
//!
//! Not here: answers that are merely wrong (`bad`).

use baselines::server::{Endpoint, Prepared};

use crate::answers::{chat, kinds, llama, ollama, vllm, vllm_answer};
use crate::fake::{Fake, Part, Script, Takes};
use crate::{LIMIT_S, ask, prompt, refused, said};

const KEY: &str = "sk-not-to-be-seen-0123";
/// Enough for a server that is near, and soon over.
const SHORT_S: u64 = 1;
const LATE: &str = "no whole answer within 1 s (run.request_limit_s)";

fn stream(parts: Vec<Part>) -> Script {
    Script::stream("text/event-stream", parts)
}

#[test]
fn a_server_slower_than_the_limit_is_given_up() {
    for parts in [vec![Part::Silence], {
        let mut parts = vllm().answer.parts;
        parts.truncate(2);
        parts.push(Part::Silence);
        parts
    }] {
        let fake = Fake::new(vllm().takes, stream(parts));
        let outcome = ask(&fake.address.into(), &*vllm().protocol, &prompt(), SHORT_S);
        said(outcome, &[LATE]);
    }
}

#[test]
fn an_endless_answer_of_nothing_meets_the_limit() {
    let nothing: [&[u8]; 4] = [
        b"\n",
        b": still here\n\n",
        b"data: {\"choices\":[]}\n\n",
        b"event: ping\n\n",
    ];
    for part in nothing {
        let fake = Fake::new(vllm().takes, stream(vec![Part::Endless(part.to_vec())]));
        let outcome = ask(&fake.address.into(), &*vllm().protocol, &prompt(), SHORT_S);
        said(outcome, &[LATE]);
    }
}

#[test]
fn an_endless_line_is_refused_before_it_fills_the_memory() {
    let part = || Part::Endless(vec![b'x'; 1 << 16]);
    refused(
        &vllm(),
        stream(vec![part()]),
        &["an event has more than", "bytes"],
    );
    refused(
        &ollama(),
        stream(vec![part()]),
        &["an event has more than", "bytes"],
    );
    let data = Part::Endless(
        b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n".repeat(512),
    );
    refused(
        &vllm(),
        stream(vec![data]),
        &["an event has more than", "bytes"],
    );
}

#[test]
fn a_refusal_of_any_size_is_quoted_shortly() {
    for part in [
        Part::Bytes(vec![b'x'; 1 << 20]),
        Part::Endless(vec![b'x'; 1 << 16]),
    ] {
        let script = Script {
            status: "500 Internal Server Error",
            kind: "text/html",
            parts: vec![part],
        };
        let words = refused(&vllm(), script, &["500 Internal Server Error", "xxxx"]);
        assert!(words.len() < 500, "{} bytes", words.len());
    }
}

#[test]
fn a_refusal_without_a_word_or_an_end_is_one_all_the_same() {
    for parts in [
        vec![],
        vec![Part::Death],
        vec![Part::Bytes(b" \n".to_vec())],
    ] {
        let script = Script {
            status: "404 Not Found",
            kind: "text/html",
            parts,
        };
        refused(
            &vllm(),
            script,
            &["404 Not Found: nothing", "this kind of server"],
        );
    }
}

#[test]
fn an_event_that_is_no_part_of_an_answer_is_quoted_shortly() {
    let long = format!("\"{}\"", "z".repeat(10_000));
    for kind in kinds() {
        for event in ["{", "nonsense", "[1,2]", "7", "\"text\"", &long] {
            let script = if kind.answer.kind == "text/event-stream" {
                Script::events(&[event])
            } else {
                Script::lines(&[event])
            };
            let words = refused(&kind, script, &["no part of an answer"]);
            assert!(words.len() < 1000, "{} bytes", words.len());
        }
    }
}

// 21
#[test]
fn numbers_that_are_no_counts_are_refused_wherever_they_stand() {
    for count in [
        "NaN",
        "Infinity",
        "-1",
        "1.5",
        "1e400",
        "18446744073709551616",
        "\"4\"",
    ] {
        let usage = format!(r#"{{"prompt_tokens":5,"completion_tokens":{count}}}"#);
        refused(&vllm(), vllm_answer(&usage), &["no part of an answer"]);
    }
    for id in ["-1", "4294967296", "null", "1.0"] {
        let event = format!(r#"{{"tokens":[{id}],"stop":false}}"#);
        refused(
            &llama(),
            Script::events(&[&event]),
            &["no part of an answer"],
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let script = stream(vec![Part::Bytes(b"data: {\"a\":\"\xff\"}\n\n".to_vec())]);
    refused(&vllm(), script, &["no UTF-8"]);
}

#[test]
fn a_page_in_the_place_of_a_stream_is_named_by_its_kind() {
    let mut script = Script::refusal("200 OK", "<html>welcome</html>");
    script.kind = "text/html";
    refused(
        &vllm(),
        script,
        &["text/html", "did not say that it was over"],
    );
}

/// The key as the kind's server wants it.
fn keyed(
    takes: Takes,
    script: Script,
    protocol: &dyn baselines::server::protocol::Protocol,
) -> (Fake, Endpoint) {
    let fake = Fake::new(takes, script);
    let endpoint = Endpoint::from(fake.address)
        .keyed(protocol.shape(), KEY)
        .unwrap();
    (fake, endpoint)
}

// 32
#[test]
fn a_key_goes_where_the_server_looks_for_it_and_into_no_evidence() {
    for kind in kinds() {
        let (fake, endpoint) = keyed(kind.takes, kind.answer.clone(), &*kind.protocol);
        let done = ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S).unwrap();
        let (name, before) = kind.protocol.shape().key;
        let header = format!("{name}: {before}{KEY}");
        assert!(fake.asked()[0].head.contains(&header), "{header}");
        let sent = Prepared::new(&*kind.protocol, &prompt()).unwrap().sent;
        let line = serde_json::to_string(&sent).unwrap();
        assert!(!format!("{line}{done:?}{endpoint:?}").contains(KEY));
    }
}

// 32
#[test]
fn a_key_that_the_server_repeats_is_taken_out_of_what_it_says() {
    for kind in kinds() {
        let mut refusal = Script::refusal("401 Unauthorized", "wrong: SAID");
        let (_fake, endpoint) = keyed(kind.takes, refusal.clone(), &*kind.protocol);
        let outcome = ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S);
        let words = said(
            outcome,
            &["401 Unauthorized", "(key)", "does it want a key?"],
        );
        assert!(!words.contains(KEY), "{words}");
        refusal.status = "200 OK";
        refusal.parts = vec![Part::Bytes(b"data: no JSON, SAID\n\n".to_vec())];
        let (_fake, endpoint) = keyed(kind.takes, refusal, &*kind.protocol);
        let words = ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S);
        assert!(!words.unwrap_err().to_string().contains(KEY));
    }
    let usage = r#"{"prompt_tokens":5,"completion_tokens":4,"of":"SAID"}"#;
    let kind = vllm();
    let (_fake, endpoint) = keyed(kind.takes, vllm_answer(usage), &*kind.protocol);
    let usage = ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S)
        .unwrap()
        .told
        .usage;
    assert!(usage.contains("(key)") && !usage.contains(KEY), "{usage}");
}

// 32
#[test]
fn a_key_is_taken_out_before_a_text_is_shortened() {
    for padding in 250..320 {
        let words = format!("{}SAID", "x".repeat(padding));
        let refusal = Script::refusal("401 Unauthorized", &words);
        let kind = vllm();
        let (_fake, endpoint) = keyed(kind.takes, refusal, &*kind.protocol);
        let words = said(
            ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S),
            &["xxx"],
        );
        assert!(!words.contains(&KEY[..4]), "{words}");
    }
}

// 32
#[test]
fn an_address_with_a_password_is_refused_and_not_repeated() {
    for url in [
        "http://user:hunter22@127.0.0.1:80",
        "https://user:hunter22@127.0.0.1:80",
        "user:hunter22@127.0.0.1:80",
        "http://127.0.0.1:80/?key=hunter22",
        "http://127.0.0.1:80/hunter22",
        "http://hunter22:80",
        "http://127.0.0.1:hunter22",
        "hunter22",
    ] {
        let words = Endpoint::parse(url).unwrap_err().to_string();
        assert!(words.contains("http://127.0.0.1:PORT"), "{words}");
        assert!(!words.contains("hunter22"), "{words}");
    }
}

// 32
#[test]
fn a_key_that_would_break_a_header_is_refused_and_not_repeated() {
    for key in [
        "two\nlines-of-it",
        "two\r\nx-more: lines",
        "two words",
        "in\"quotes",
        "",
        "short",
    ] {
        let endpoint = Endpoint::parse("http://127.0.0.1:80").unwrap();
        let words = endpoint
            .keyed(chat().protocol.shape(), key)
            .unwrap_err()
            .to_string();
        assert!(key.is_empty() || !words.contains(key), "{words}");
    }
}

// 30
#[test]
fn localhost_is_the_address_that_servers_listen_on() {
    let fake = Fake::new(vllm().takes, vllm().answer);
    let port = fake.address.port();
    for host in ["localhost", "127.0.0.1"] {
        let endpoint = Endpoint::parse(&format!("http://{host}:{port}/")).unwrap();
        assert_eq!(
            format!("{endpoint:?}"),
            format!("Endpoint(127.0.0.1:{port}, None)")
        );
        ask(&endpoint, &*vllm().protocol, &prompt(), LIMIT_S).unwrap();
    }
    assert!(Endpoint::parse("http://[::1]:80").is_ok());
}
