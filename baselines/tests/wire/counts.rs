//! Counts of servers: absent, null and 0 apart; what cannot be; sums over reads and writes; counters of a whole server.
//!
//! Numbers are those of the list of bad inputs. Not here: counts of an answer's tokens (`bad`).

use baselines::server::protocol::completions::{PrefixCache, prefix_cache};
use baselines::server::protocol::sglang::flushed;
use baselines::server::protocol::{Said, Told};

use crate::answers::{
    USAGE, anthropic, anthropic_answer, llama, ollama, ollama_answer, sglang, sglang_event, vllm,
    vllm_answer,
};
use crate::fake::{Part, Script};
use crate::{answered, refused};

// 10
#[test]
fn a_cache_that_is_not_spoken_of_is_not_an_empty_one() {
    let usage = |details: &str| format!(r#"{{"prompt_tokens":5,"completion_tokens":4{details}}}"#);
    for (details, cached, computed) in [
        ("", None, None),
        (r#","prompt_tokens_details":null"#, None, None),
        (r#","prompt_tokens_details":{}"#, None, None),
        (
            r#","prompt_tokens_details":{"cached_tokens":null}"#,
            None,
            None,
        ),
        (
            r#","prompt_tokens_details":{"cached_tokens":0}"#,
            Some(0),
            Some(5),
        ),
        (
            r#","prompt_tokens_details":{"cached_tokens":5}"#,
            Some(5),
            Some(0),
        ),
    ] {
        let told = answered(&vllm(), vllm_answer(&usage(details)))
            .unwrap()
            .told;
        assert_eq!(
            (told.cached, told.computed),
            (cached, computed),
            "{details}"
        );
    }
    for (field, cached) in [
        ("", None),
        (r#","cached_tokens":null"#, None),
        (r#","cached_tokens":0"#, Some(0)),
    ] {
        let kind = sglang();
        let script = replaced(kind.answer.clone(), r#","cached_tokens":3"#, field);
        assert_eq!(
            answered(&kind, script).unwrap().told.cached,
            cached,
            "{field}"
        );
    }
}

// 10
#[test]
fn a_null_usage_after_one_takes_nothing_back() {
    let mut script = vllm().answer;
    let null = Part::Bytes(b"data: {\"choices\":[],\"usage\":null}\n\n".to_vec());
    script.parts.insert(5, null);
    let told = answered(&vllm(), script).unwrap().told;
    assert_eq!((told.usage.as_str(), told.cached), (USAGE, Some(3)));
}

// 10
#[test]
fn a_prompt_that_ollama_does_not_count_is_unknown_and_not_empty() {
    for field in [
        "",
        r#""prompt_eval_count":0,"#,
        r#""prompt_eval_count":null,"#,
    ] {
        let last = format!(r#"{field}"done_reason":"length","eval_count":4"#);
        let told = answered(&ollama(), ollama_answer(&last)).unwrap().told;
        assert_eq!(
            (told.prompt, told.cached, told.computed),
            (None, None, None)
        );
    }
}

// 11
#[test]
fn what_was_written_to_a_cache_is_part_of_the_prompt() {
    let told = answered(&anthropic(), anthropic().answer).unwrap().told;
    // Half of the prompt was read; without the writes it would look like 400 of 402.
    assert_eq!((told.cached, told.prompt), (Some(400), Some(800)));
    let unknown = anthropic_answer(
        r#""input_tokens":2,"cache_creation_input_tokens":null,"cache_read_input_tokens":400"#,
    );
    let told = answered(&anthropic(), unknown).unwrap().told;
    assert_eq!(
        (told.cached, told.written, told.prompt),
        (Some(400), None, None)
    );
    let nothing = anthropic_answer(
        r#""input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0"#,
    );
    let told = answered(&anthropic(), nothing).unwrap().told;
    assert_eq!(
        (told.cached, told.written, told.prompt),
        (Some(0), Some(0), Some(7))
    );
}

// 12
#[test]
fn more_found_in_a_cache_than_there_was_to_find_cannot_be() {
    let wrong = USAGE.replace(r#""cached_tokens":3"#, r#""cached_tokens":6"#);
    refused(
        &vllm(),
        vllm_answer(&wrong),
        &["found 6 tokens", "the prompt has 5", "cannot be"],
    );
    let chat = crate::answers::chat();
    let script = replaced(
        chat.answer.clone(),
        r#""cached_tokens":8"#,
        r#""cached_tokens":13"#,
    );
    refused(
        &chat,
        script,
        &["found 13 tokens", "the prompt has 12", "cannot be"],
    );
    let llama = llama();
    let script = replaced(
        llama.answer.clone(),
        r#""cache_n":4"#,
        r#""cache_n":18446744073709551615"#,
    );
    refused(
        &llama,
        script,
        &["found 18446744073709551615 tokens", "cannot be"],
    );
}

/// An answer with one text in the place of another, which it must have.
fn replaced(mut script: Script, from: &str, to: &str) -> Script {
    let mut found = false;
    for part in &mut script.parts {
        let Part::Bytes(bytes) = part else { continue };
        let text = String::from_utf8(bytes.clone()).unwrap();
        found |= text.contains(from);
        *bytes = text.replace(from, to).into_bytes();
    }
    assert!(found, "{from} is in no event");
    script
}

#[test]
fn sglang_may_repeat_what_it_said_or_go_on_from_it() {
    let event = |ids: &str, count| sglang_event(ids, count, "null");
    for (name, chunks) in [
        (
            "repeats",
            [
                event("[21,22]", 2),
                event("[21,22]", 2),
                event("[21,22,23]", 3),
            ],
        ),
        (
            "goes on",
            [event("[21,22]", 2), event("[]", 2), event("[23]", 3)],
        ),
    ] {
        let mut told = Told::default();
        let ids: Vec<Vec<u32>> = chunks
            .iter()
            .map(|chunk| sglang().protocol.event(chunk, &mut told).unwrap())
            .map(|said| said.piece.map_or(Vec::new(), |piece| piece.ids))
            .collect();
        assert_eq!(ids, [vec![21, 22], vec![], vec![23]], "{name}");
    }
}

#[test]
fn ids_are_read_from_log_probabilities_that_have_them() {
    let event = |tokens: &str| {
        let mut told = Told::default();
        let text = format!(r#"{{"choices":[{{"text":" a","logprobs":{{"tokens":[{tokens}]}}}}]}}"#);
        vllm().protocol.event(&text, &mut told).unwrap()
    };
    let ids = |said: Said| said.piece.unwrap().ids;
    assert_eq!(
        ids(event(r#""token_id:21","token_id:4294967295""#)),
        [21, u32::MAX]
    );
    assert_eq!(ids(event(r#"" a""#)), [0; 0]);
    assert_eq!(ids(event(r#""token_id:4294967296""#)), [0; 0]);
}

const METRICS: &str = "# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m}\"} 1000.0
vllm:prefix_cache_queries_total{engine=\"1\",model_name=\"m}\"} 500 1712345678
vllm:prefix_cache_queries_created{engine=\"0\",model_name=\"m\"} 1.7e+09
vllm:prefix_cache_hits_total 2.5e+02
vllm:prefix_cache_hits_total_more 7
";

#[test]
fn a_servers_counters_are_summed_over_its_engines() {
    let expected = PrefixCache {
        queries: 1500,
        hits: 250,
    };
    assert_eq!(prefix_cache(METRICS).unwrap(), expected);
}

#[test]
fn counters_that_are_missing_or_no_counts_are_not_0() {
    let none = prefix_cache("# nothing\n").unwrap_err();
    assert!(
        none.contains("no vllm:prefix_cache_queries_total"),
        "{none}"
    );
    for value in ["NaN", "-1", "+Inf", "0.5", "x", "", "1e300"] {
        let text = METRICS.replace("2.5e+02", value);
        let problem = prefix_cache(&text).unwrap_err();
        assert!(problem.contains("hits_total"), "{value}: {problem}");
    }
}

#[test]
fn a_cache_that_was_not_flushed_is_not_taken_for_one_that_was() {
    let answer = "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n";
    assert_eq!(flushed(answer), Ok(()));
    let problem = flushed("Flush cache failed.\n").unwrap_err();
    assert!(
        problem.contains("/flush_cache") && problem.contains("failed"),
        "{problem}"
    );
}
