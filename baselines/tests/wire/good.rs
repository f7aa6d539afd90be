//! Good answers: what was sent, and what came of it, for every kind of server.
//!
//! Not here: bad ones (`bad`).

use baselines::Error;
use baselines::server::protocol::{Prompt, Shape};
use baselines::server::{Endpoint, Prepared, version};
use serde_json::Value;
use workloads::trace::sha256_hex;

use crate::answers::{DECODE, PROMPT, TEXT, kinds, llama, llama_whole, plain, vllm};
use crate::fake::{Fake, Script, Takes};
use crate::{LIMIT_S, answered, ask, prompt, refused, runtime};

#[test]
fn every_kind_of_server_takes_what_it_is_sent_and_its_answer_adds_up() {
    for kind in kinds() {
        let name = kind.protocol.shape().name;
        let done = answered(&kind, kind.answer.clone()).unwrap();
        assert_eq!(done.chunk_t_ns.len(), DECODE, "{name}");
        assert_eq!(done.chunk_tokens, [1; DECODE], "{name}");
        assert!(done.one_token_each(), "{name}");
        assert!(done.chunk_t_ns.is_sorted(), "{name}");
        assert_eq!(done.channels(), "content", "{name}");
        assert_eq!(done.content_t_ns(), Some(done.chunk_t_ns[0]), "{name}");
        assert_eq!(done.status, 200);
        assert_eq!(done.told.reason, "length", "{name}");
        assert_eq!(done.told.answered, Some(DECODE), "{name}");
    }
}

#[test]
fn a_whole_answer_is_one_piece_with_every_id() {
    let kind = llama_whole();
    let done = answered(&kind, kind.answer.clone()).unwrap();
    assert_eq!(done.ids, [21, 22, 23, 24]);
    assert_eq!(done.chunk_tokens, [DECODE]);
    assert!(!done.one_token_each());
    assert_eq!((done.told.cached, done.told.computed), (Some(4), Some(1)));
}

#[test]
fn ids_that_a_stream_holds_back_are_missed_and_not_made_up() {
    let kind = llama();
    let mut held = kind.answer.clone();
    held.parts.remove(1);
    let words = answered(&kind, held).unwrap_err().to_string();
    assert!(words.contains("says 4 tokens, and 3 came"), "{words}");
}

#[test]
fn ids_come_back_where_the_server_says_them_and_nowhere_else() {
    for kind in kinds() {
        let name = kind.protocol.shape().name;
        let ids = answered(&kind, kind.answer.clone()).unwrap().ids;
        match name {
            "llama.cpp's server" | "vLLM" | "SGLang" => assert_eq!(ids, [21, 22, 23, 24], "{name}"),
            _ => assert_eq!(ids, [0; 0], "{name}"),
        }
    }
}

#[test]
fn counts_of_the_prompt_are_those_the_server_says_and_no_others() {
    for kind in kinds() {
        let name = kind.protocol.shape().name;
        let told = answered(&kind, kind.answer.clone()).unwrap().told;
        let expected = match name {
            "llama.cpp's server" => (Some(5), Some(4), None, Some(1)),
            "Ollama" => (Some(5), None, None, None),
            "OpenAI's chat" => (Some(12), Some(8), None, Some(4)),
            "Anthropic's messages" => (Some(800), Some(400), Some(398), Some(400)),
            _ => (Some(5), Some(3), None, Some(2)),
        };
        let found = (told.prompt, told.cached, told.written, told.computed);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn what_is_sent_is_what_the_evidence_says_and_ids_stand_in_it_once() {
    for kind in kinds() {
        let name = kind.protocol.shape().name;
        let fake = Fake::new(kind.takes, kind.answer.clone());
        let endpoint = Endpoint::from(fake.address);
        ask(&endpoint, &*kind.protocol, &prompt(), LIMIT_S).unwrap();
        let sent = Prepared::new(&*kind.protocol, &prompt()).unwrap().sent;
        let asked = fake.asked().remove(0);
        assert_eq!(
            sha256_hex(asked.body.as_bytes()),
            sent.body_sha256,
            "{name}"
        );
        assert_eq!(format!("POST {}", sent.path), kind.takes.line);
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        match kind.protocol.shape().prompt {
            Prompt::Ids(field) => {
                assert_eq!(body[field], serde_json::json!(PROMPT), "{name}");
                let whole = sent.body.replace("[]", "[11,12,13,14,15]");
                assert_eq!((whole, sent.body.contains("11")), (asked.body, false));
            }
            Prompt::Text | Prompt::Message => {
                assert_eq!(sent.body, asked.body, "{name}");
                assert!(sent.body.contains(TEXT), "{name}");
            }
        }
        assert_eq!(body["stream"], true, "{name}");
    }
}

#[test]
fn a_request_that_a_server_does_not_know_is_refused_with_the_fields_by_name() {
    let fields = r#"unknown ["ignore_eos", "return_token_ids"], missing []"#;
    let mut strict = vllm();
    strict.takes = plain().takes;
    refused(&strict, plain().answer, &["400 Bad Request", fields]);
    let mut lax = plain();
    lax.takes = vllm().takes;
    refused(
        &lax,
        vllm().answer,
        &[r#"missing ["ignore_eos", "return_token_ids"]"#],
    );
}

#[test]
fn a_server_that_takes_only_text_is_not_asked_with_ids() {
    let only_ids = baselines::server::protocol::Ask {
        text: None,
        ..prompt()
    };
    for kind in kinds() {
        let shape = kind.protocol.shape();
        let outcome = Prepared::new(&*kind.protocol, &only_ids);
        match shape.prompt {
            Prompt::Ids(_) => assert!(outcome.is_ok(), "{}", shape.name),
            Prompt::Text | Prompt::Message => {
                let words = outcome.err().unwrap().to_string();
                assert!(words.contains("give the prompt as text"), "{words}");
            }
        }
    }
}

#[test]
fn a_version_is_what_the_server_says_or_unknown_where_its_kind_does_not_say() {
    for kind in kinds() {
        let shape = kind.protocol.shape();
        let Some(line) = (match shape.name {
            "vLLM" => Some("GET /version"),
            "SGLang" => Some("GET /get_server_info"),
            "Ollama" => Some("GET /api/version"),
            _ => None,
        }) else {
            // Nobody is there to be asked.
            let nobody = Endpoint::parse("http://127.0.0.1:1").unwrap();
            assert_eq!(version_of(&nobody, shape).unwrap(), None);
            continue;
        };
        let takes = Takes {
            line,
            fields: &[],
            headers: &[],
        };
        let answers = |answer: &str| {
            let fake = Fake::new(takes, Script::refusal("200 OK", answer));
            version_of(&fake.address.into(), shape)
        };
        let found = answers(r#"{"version":"0.5.1","more":{}}"#).unwrap();
        assert_eq!(found.as_deref(), Some("0.5.1"));
        let words = answers(r#"{"build":7}"#).unwrap_err().to_string();
        assert!(words.contains(shape.version.unwrap()), "{words}");
    }
}

fn version_of(endpoint: &Endpoint, shape: &Shape) -> Result<Option<String>, Error> {
    runtime().block_on(version(endpoint, shape, LIMIT_S, &|| 0))
}

#[test]
fn an_answer_is_the_same_with_every_byte_in_a_chunk_of_its_own() {
    for kind in kinds() {
        let whole = answered(&kind, kind.answer.clone()).unwrap();
        let cut = answered(&kind, kind.answer.clone().in_single_bytes()).unwrap();
        let name = kind.protocol.shape().name;
        assert_eq!((cut.ids, cut.told), (whole.ids, whole.told), "{name}");
        assert_eq!(cut.chunk_tokens, whole.chunk_tokens, "{name}");
    }
}
