//! Bad answers, one test each; numbers are those of the list of bad inputs a harness must stand.
//!
//! Not here: those without an end or a limit (`hostile`), and counts (`counts`).

use std::net::{Ipv4Addr, TcpListener};

use baselines::server::Endpoint;

use crate::answers::{
    CHAT_USAGE, Kind, USAGE, chat, chat_answer, chat_chunk, completion_chunk, kinds, llama, ollama,
    ollama_answer, plain, sglang, sglang_event, usage_chunk, vllm, vllm_answer,
};
use crate::fake::{Fake, Part, Script};
use crate::{LIMIT_S, answered, ask, prompt, refused, said};

/// The events, and the words that end a stream of OpenAI's.
fn done(events: &[String]) -> Script {
    let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
    events.push("[DONE]");
    Script::events(&events)
}

/// An answer's first parts.
fn cut(kind: &Kind, parts: usize) -> Script {
    let mut script = kind.answer.clone();
    script.parts.truncate(parts);
    script
}

// 1
#[test]
fn a_server_that_refuses_is_quoted_with_its_status() {
    for kind in kinds() {
        let words = r#"{"error":{"message":"no room","code":503}}"#;
        let script = Script::refusal("503 Service Unavailable", words);
        let path = kind.protocol.shape().path;
        refused(
            &kind,
            script,
            &[path, "503 Service Unavailable", "no room", "loading"],
        );
    }
}

// 1
#[test]
fn a_refusal_in_the_midst_of_an_answer_is_one() {
    let error = r#"{"error":{"message":"out of memory","code":500}}"#;
    for kind in [llama(), vllm(), sglang(), chat()] {
        let script = cut(&kind, 1).then(Part::Bytes(format!("data: {error}\n\n").into_bytes()));
        refused(&kind, script, &["it refuses", "out of memory"]);
    }
    let kind = ollama();
    let script = cut(&kind, 1).then(Part::Bytes(b"{\"error\":\"out of memory\"}\n".to_vec()));
    refused(&kind, script, &["it refuses: out of memory"]);
    let kind = crate::answers::anthropic();
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let script = cut(&kind, 4).then(Part::Bytes(
        format!("event: error\ndata: {error}\n\n").into(),
    ));
    refused(&kind, script, &["it refuses", "Overloaded"]);
}

// 2
#[test]
fn a_server_that_dies_after_its_headers_has_not_answered() {
    for kind in kinds() {
        let script = Script::stream("text/event-stream", vec![Part::Death]);
        refused(
            &kind,
            script,
            &["before its first token, the answer broke off"],
        );
    }
}

// 31
#[test]
fn a_server_that_dies_in_the_midst_of_an_answer_has_not_answered() {
    for kind in kinds() {
        let beginning = kind.answer.parts.len() - 2;
        refused(
            &kind,
            cut(&kind, beginning).then(Part::Death),
            &["after", ", the answer broke off"],
        );
    }
}

// 31
#[test]
fn an_answer_that_ends_without_its_last_word_is_none() {
    for kind in kinds() {
        let without_end = kind.answer.parts.len() - 1;
        let parts = ["did not say that it was over", kind.answer.kind];
        refused(&kind, cut(&kind, without_end), &parts);
    }
}

#[test]
fn an_answer_over_at_once_is_none() {
    let script = done(&[usage_chunk(USAGE)]);
    refused(
        &vllm(),
        script.clone(),
        &["without a token", "4 were asked for"],
    );
    refused(&plain(), script, &["without a token"]);
}

// 3
#[test]
fn an_answer_of_reasoning_alone_has_tokens_times_and_a_label() {
    for field in ["reasoning_content", "reasoning"] {
        let delta = format!(r#"{{"{field}":" a","content":null}}"#);
        let deltas = [delta.as_str(); 4];
        let usage = CHAT_USAGE.replace(r#""reasoning_tokens":0"#, r#""reasoning_tokens":4"#);
        let done = answered(&chat(), chat_answer(&deltas, &usage)).unwrap();
        assert_eq!((done.channels(), done.chunk_t_ns.len()), ("reasoning", 4));
        assert_eq!(
            (done.told.answered, done.told.reasoning),
            (Some(4), Some(4))
        );
        assert_eq!((done.content_t_ns(), done.one_token_each()), (None, true));
    }
}

// 3
#[test]
fn the_first_piece_of_content_is_told_from_the_first_piece() {
    let thought = r#"{"reasoning_content":" a"}"#;
    let deltas = [
        thought,
        thought,
        r#"{"content":" b"}"#,
        r#"{"content":" c"}"#,
    ];
    let done = answered(&chat(), chat_answer(&deltas, CHAT_USAGE)).unwrap();
    assert_eq!(done.channels(), "content and reasoning");
    assert_eq!(done.content_t_ns(), Some(done.chunk_t_ns[2]));
}

// 4
#[test]
fn a_role_is_no_token_and_a_last_chunk_without_choices_has_usage() {
    let done = answered(&chat(), chat().answer).unwrap();
    // The clock looks twice at the connection, then once at each part: the role is the first of these.
    assert_eq!(done.chunk_t_ns[0], 3);
    assert_eq!(done.told.usage, CHAT_USAGE);
    assert_eq!(done.told.answered, Some(4));
}

// 5
#[test]
fn pieces_of_several_tokens_make_no_claim_about_times_between_tokens() {
    let four = completion_chunk(
        r#""text":" a b c d","finish_reason":"length","token_ids":[21,22,23,24]"#,
        "",
    );
    let all = done(&[four, usage_chunk(USAGE)]);
    let whole = answered(&vllm(), all).unwrap();
    assert_eq!(
        (whole.chunk_tokens.clone(), whole.one_token_each()),
        (vec![4], false)
    );
    assert_eq!(whole.ids, [21, 22, 23, 24]);
    let text =
        |text: &str| completion_chunk(&format!(r#""text":"{text}","finish_reason":"length""#), "");
    let whole = answered(&plain(), done(&[text(" a b c d"), usage_chunk(USAGE)])).unwrap();
    assert_eq!(
        (whole.chunk_tokens.clone(), whole.one_token_each()),
        (vec![4], false)
    );
    // Three and one, or two and two: nobody can know.
    let two = done(&[text(" a b c"), text(" d"), usage_chunk(USAGE)]);
    let two = answered(&plain(), two).unwrap();
    assert_eq!(
        (two.chunk_tokens.clone(), two.one_token_each()),
        (vec![], false)
    );
    assert_eq!((two.chunk_t_ns.len(), two.told.answered), (2, Some(4)));
}

// 6
#[test]
fn usage_that_contradicts_what_came_is_refused() {
    for (count, kind) in [
        (5, vllm()),
        (3, vllm()),
        (5, plain()),
        (3, plain()),
        (0, plain()),
    ] {
        let wrong = USAGE.replace(
            r#""completion_tokens":4"#,
            &format!(r#""completion_tokens":{count}"#),
        );
        let script = if kind.protocol.shape().name == "vLLM" {
            vllm_answer(&wrong)
        } else {
            let mut script = kind.answer.clone();
            let chunk = usage_chunk(&wrong);
            script.parts[4] = Part::Bytes(format!("data: {chunk}\n\n").into_bytes());
            script
        };
        let said = format!("its usage says {count} tokens");
        refused(&kind, script, &[&said, "4", "contradict each other"]);
    }
    let wrong = CHAT_USAGE.replace(r#""reasoning_tokens":0"#, r#""reasoning_tokens":9"#);
    let deltas = [r#"{"content":" a"}"#; 4];
    refused(
        &chat(),
        chat_answer(&deltas, &wrong),
        &["9 tokens of reasoning among 4", "contradict"],
    );
    let skipped = done(&[
        sglang_event("[21]", 1, "null"),
        sglang_event("[21,22]", 4, "null"),
    ]);
    refused(
        &sglang(),
        skipped,
        &["completion_tokens went from 1 to 4 in an event with 2 ids"],
    );
}

// 6
#[test]
fn an_answer_whose_tokens_nobody_counts_is_refused() {
    let text = completion_chunk(r#""text":" a","finish_reason":"length""#, "");
    refused(
        &plain(),
        done(&[text]),
        &["neither which tokens it answered with nor how many"],
    );
}

// 7
#[test]
fn a_prompt_of_another_length_than_was_sent_is_refused() {
    let wrong = USAGE.replace(r#""prompt_tokens":5"#, r#""prompt_tokens":6"#);
    refused(
        &vllm(),
        vllm_answer(&wrong),
        &["6 tokens in a prompt of 5", "not taken as they are"],
    );
    let mut script = vllm().answer;
    let first = completion_chunk(
        r#""text":" a","finish_reason":null,"token_ids":[21],"prompt_token_ids":[1,12,13,14,15]"#,
        "",
    );
    script.parts[0] = Part::Bytes(format!("data: {first}\n\n").into_bytes());
    refused(&vllm(), script, &["not those that were sent"]);
}

// 17
#[test]
fn an_answer_that_ends_early_is_refused_whether_or_not_it_was_asked_not_to() {
    let mut script = vllm().answer;
    script.parts.remove(2);
    let last = completion_chunk(r#""text":"","finish_reason":"stop","token_ids":[24]"#, "");
    script.parts[2] = Part::Bytes(format!("data: {last}\n\n").into_bytes());
    let usage = usage_chunk(&USAGE.replace(r#""completion_tokens":4"#, r#""completion_tokens":3"#));
    script.parts[3] = Part::Bytes(format!("data: {usage}\n\n").into_bytes());
    refused(
        &vllm(),
        script,
        &["3 tokens of 4", "\"stop\"", "is ignore_eos ignored?"],
    );
    // All tokens came, and yet it says that the text was over.
    let stop = ollama_answer(r#""done_reason":"stop","prompt_eval_count":5,"eval_count":4"#);
    refused(
        &ollama(),
        stop,
        &["4 tokens of 4", "\"stop\"", "lower the tokens asked for"],
    );
}

// 17
#[test]
fn more_tokens_than_were_asked_for_end_the_reading() {
    let chunk = completion_chunk(
        r#""text":" a","finish_reason":null,"token_ids":[1,2,3,4,5]"#,
        "",
    );
    refused(&vllm(), done(&[chunk]), &["more than the 4 tokens"]);
    let deltas = [r#"{"content":" a"}"#; 5];
    refused(
        &chat(),
        chat_answer(&deltas, CHAT_USAGE),
        &["more than the 4 tokens"],
    );
}

#[test]
fn nothing_may_follow_the_last_word_of_an_answer() {
    let again = chat_chunk(r#"{"content":" e"}"#, "null");
    let again = format!("data: {again}\n\n").into_bytes();
    let script = chat().answer.then(Part::Bytes(again));
    refused(&chat(), script, &["went on after"]);
}

// 23
#[test]
fn a_prompt_that_was_cut_to_the_context_is_found_out_by_its_count() {
    let cut = ollama_answer(r#""done_reason":"length","prompt_eval_count":3,"eval_count":4"#);
    refused(
        &ollama(),
        cut,
        &["3 tokens in a prompt of 5", "raise num_ctx"],
    );
    let long: Vec<u32> = (0..61).collect();
    let long = baselines::server::protocol::Ask {
        ids: &long,
        ..prompt()
    };
    let endpoint = Endpoint::from(Fake::new(ollama().takes, ollama().answer).address);
    let outcome = ask(&endpoint, &*ollama().protocol, &long, LIMIT_S);
    said(outcome, &["65 positions", "num_ctx is 64", "raise num_ctx"]);
    let mut llama = llama();
    let last = br#"data: {"tokens":[],"stop":true,"stop_type":"limit","truncated":true}"#;
    llama.answer.parts[4] = Part::Bytes([last.as_slice(), b"\n\n"].concat());
    refused(&llama, llama.answer.clone(), &["truncated the prompt"]);
}

// 30
#[test]
fn nobody_there_is_said_with_the_address() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for kind in kinds() {
        let outcome = ask(
            &Endpoint::from(address),
            &*kind.protocol,
            &prompt(),
            LIMIT_S,
        );
        said(
            outcome,
            &[
                "cannot connect",
                &address.to_string(),
                "does the server run there?",
            ],
        );
    }
}

// 30
#[test]
fn a_connection_that_was_promised_and_closed_harms_no_request_after_it() {
    let fake = Fake::new(vllm().takes, vllm().answer);
    let endpoint = Endpoint::from(fake.address);
    for _ in 0..3 {
        let done = ask(&endpoint, &*vllm().protocol, &prompt(), LIMIT_S).unwrap();
        // Of the clock's looks, two are at the connection, and the first token's comes after both.
        assert_eq!(done.connect_ns, 1);
        assert!(done.chunk_t_ns[0] >= 2);
    }
    assert_eq!(fake.asked().len(), 3);
}

// 30
#[test]
fn a_server_that_hangs_up_without_a_word_has_not_answered() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = Endpoint::from(listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
        }
    });
    let outcome = ask(&endpoint, &*vllm().protocol, &prompt(), LIMIT_S);
    said(outcome, &["/v1/completions: no answer"]);
}
