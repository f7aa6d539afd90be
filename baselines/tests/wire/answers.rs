//! What servers take and answer, as their documentation has it, and what can go wrong in it.
//!
//! Every answer is to [`PROMPT`] (or its text), with [`DECODE`] tokens asked for. Not here: sending it (`fake`).

use baselines::server::protocol::Protocol;
use baselines::server::protocol::anthropic::Anthropic;
use baselines::server::protocol::chat::Chat;
use baselines::server::protocol::completions::Completions;
use baselines::server::protocol::llama::Llama;
use baselines::server::protocol::ollama::Ollama;
use baselines::server::protocol::sglang::Sglang;

use crate::fake::{Script, Takes};

pub(crate) const PROMPT: [u32; 5] = [11, 12, 13, 14, 15];
pub(crate) const TEXT: &str = "one two three four five";
pub(crate) const DECODE: usize = 4;

/// A kind of server: how we speak to it, what it takes, and a good answer.
pub(crate) struct Kind {
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) takes: Takes,
    pub(crate) answer: Script,
}

pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        llama(),
        vllm(),
        plain(),
        sglang(),
        ollama(),
        chat(),
        anthropic(),
    ]
}

pub(crate) fn llama() -> Kind {
    Kind {
        protocol: Box::new(Llama { stream: true }),
        takes: Takes {
            line: "POST /completion",
            fields: &[
                "prompt",
                "n_predict",
                "stream",
                "return_tokens",
                "cache_prompt",
                "ignore_eos",
                "temperature",
                "samplers",
                "id_slot",
            ],
            headers: &[],
        },
        answer: Script::events(&[
            r#"{"index":0,"content":" a","tokens":[21],"stop":false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":5}"#,
            r#"{"index":0,"content":" b","tokens":[22],"stop":false,"id_slot":0,"tokens_predicted":2,"tokens_evaluated":5}"#,
            r#"{"index":0,"content":" c","tokens":[23],"stop":false,"id_slot":0,"tokens_predicted":3,"tokens_evaluated":5}"#,
            r#"{"index":0,"content":" d","tokens":[24],"stop":false,"id_slot":0,"tokens_predicted":4,"tokens_evaluated":5}"#,
            r#"{"index":0,"content":"","tokens":[],"stop":true,"stop_type":"limit","truncated":false,"generation_settings":{"logit_bias":[{"bias":null,"token":2}]},"timings":{"cache_n":4,"prompt_n":1,"predicted_n":4}}"#,
        ]),
    }
}

/// The same server asked for its whole answer at once.
pub(crate) fn llama_whole() -> Kind {
    Kind {
        protocol: Box::new(Llama { stream: false }),
        answer: Script::lines(&[
            r#"{"index":0,"content":" ab","tokens":[21,22,23,24],"id_slot":0,"stop":true,"stop_type":"limit","truncated":false,"generation_settings":{"logit_bias":[{"bias":null,"token":2}]},"timings":{"cache_n":4,"prompt_n":1,"predicted_n":4}}"#,
        ]),
        ..llama()
    }
}

/// A chunk of vLLM's completions; `more` begins with a comma.
pub(crate) fn completion_chunk(choice: &str, more: &str) -> String {
    format!(
        r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"logprobs":null,{choice}}}]{more}}}"#
    )
}

pub(crate) fn usage_chunk(usage: &str) -> String {
    format!(
        r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],"usage":{usage}}}"#
    )
}

/// vLLM's answer with this usage.
pub(crate) fn vllm_answer(usage: &str) -> Script {
    let chunks = [
        completion_chunk(
            r#""text":" a","finish_reason":null,"token_ids":[21],"prompt_token_ids":[11,12,13,14,15]"#,
            r#","usage":null"#,
        ),
        completion_chunk(r#""text":" b","finish_reason":null,"token_ids":[22]"#, ""),
        completion_chunk(r#""text":" c","finish_reason":null,"token_ids":[23]"#, ""),
        completion_chunk(
            r#""text":" d","finish_reason":"length","token_ids":[24]"#,
            "",
        ),
        usage_chunk(usage),
    ];
    let mut events: Vec<&str> = chunks.iter().map(String::as_str).collect();
    events.push("[DONE]");
    Script::events(&events)
}

pub(crate) const USAGE: &str = r#"{"prompt_tokens":5,"total_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}"#;

pub(crate) fn vllm() -> Kind {
    Kind {
        protocol: Box::new(Completions {
            model: "m".to_owned(),
            vllm: true,
        }),
        takes: Takes {
            line: "POST /v1/completions",
            fields: &[
                "model",
                "prompt",
                "max_tokens",
                "temperature",
                "stream",
                "stream_options.include_usage",
                "ignore_eos",
                "return_token_ids",
            ],
            headers: &[],
        },
        answer: vllm_answer(USAGE),
    }
}

pub(crate) fn plain() -> Kind {
    let chunk = |text: &str, reason: &str| {
        completion_chunk(&format!(r#""text":"{text}","finish_reason":{reason}"#), "")
    };
    let chunks = [
        chunk(" a", "null"),
        chunk(" b", "null"),
        chunk(" c", "null"),
        chunk(" d", r#""length""#),
        usage_chunk(USAGE),
        "[DONE]".to_owned(),
    ];
    let events: Vec<&str> = chunks.iter().map(String::as_str).collect();
    Kind {
        protocol: Box::new(Completions {
            model: "m".to_owned(),
            vllm: false,
        }),
        takes: Takes {
            line: "POST /v1/completions",
            fields: &[
                "model",
                "prompt",
                "max_tokens",
                "temperature",
                "stream",
                "stream_options.include_usage",
            ],
            headers: &[],
        },
        answer: Script::events(&events),
    }
}

/// An event of SGLang's, its chunk having these ids; `count` is what it says it has so far.
pub(crate) fn sglang_event(ids: &str, count: usize, finish: &str) -> String {
    format!(
        r#"{{"text":" a","output_ids":{ids},"meta_info":{{"id":"r","finish_reason":{finish},"prompt_tokens":5,"completion_tokens":{count},"cached_tokens":3}}}}"#
    )
}

pub(crate) fn sglang() -> Kind {
    let events = [
        sglang_event("[21]", 1, "null"),
        sglang_event("[21,22]", 2, "null"),
        sglang_event("[21,22,23]", 3, "null"),
        sglang_event("[21,22,23,24]", 4, r#"{"type":"length","length":4}"#),
        "[DONE]".to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    Kind {
        protocol: Box::new(Sglang),
        takes: Takes {
            line: "POST /generate",
            fields: &[
                "input_ids",
                "sampling_params.max_new_tokens",
                "sampling_params.temperature",
                "sampling_params.ignore_eos",
                "stream",
            ],
            headers: &[],
        },
        answer: Script::events(&events),
    }
}

/// Ollama's answer, its last line with these fields.
pub(crate) fn ollama_answer(last: &str) -> Script {
    let line = |text: &str| {
        format!(
            r#"{{"model":"m","created_at":"2026-01-01T00:00:00Z","response":"{text}","done":false}}"#
        )
    };
    let lines = [
        line(" a"),
        line(" b"),
        line(" c"),
        line(" d"),
        format!(
            r#"{{"model":"m","created_at":"2026-01-01T00:00:00Z","response":"","done":true,{last}}}"#
        ),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Script::lines(&lines)
}

pub(crate) fn ollama() -> Kind {
    Kind {
        protocol: Box::new(Ollama {
            model: "m".to_owned(),
            context_positions: 64,
        }),
        takes: Takes {
            line: "POST /api/generate",
            fields: &[
                "model",
                "prompt",
                "raw",
                "stream",
                "options.num_predict",
                "options.num_ctx",
                "options.temperature",
            ],
            headers: &[],
        },
        answer: ollama_answer(
            r#""done_reason":"length","total_duration":9,"load_duration":1,"prompt_eval_count":5,"prompt_eval_duration":3,"eval_count":4,"eval_duration":4"#,
        ),
    }
}

/// A chunk of a chat; `delta` is what it adds.
pub(crate) fn chat_chunk(delta: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null}}"#
    )
}

/// A chat of these deltas: a role first, usage last.
pub(crate) fn chat_answer(deltas: &[&str], usage: &str) -> Script {
    let mut chunks = vec![chat_chunk(
        r#"{"role":"assistant","content":"","refusal":null}"#,
        "null",
    )];
    chunks.extend(deltas.iter().map(|delta| chat_chunk(delta, "null")));
    chunks.push(chat_chunk("{}", r#""length""#));
    chunks.push(format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{usage}}}"#
    ));
    let mut events: Vec<&str> = chunks.iter().map(String::as_str).collect();
    events.push("[DONE]");
    Script::events(&events)
}

pub(crate) const CHAT_USAGE: &str = r#"{"prompt_tokens":12,"completion_tokens":4,"total_tokens":16,"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}"#;

pub(crate) fn chat() -> Kind {
    let deltas = [
        r#"{"content":" a"}"#,
        r#"{"content":" b"}"#,
        r#"{"content":" c"}"#,
        r#"{"content":" d"}"#,
    ];
    Kind {
        protocol: Box::new(Chat {
            model: "m".to_owned(),
        }),
        takes: Takes {
            line: "POST /v1/chat/completions",
            fields: &[
                "model",
                "messages[].role",
                "messages[].content",
                "max_completion_tokens",
                "temperature",
                "stream",
                "stream_options.include_usage",
            ],
            headers: &[],
        },
        answer: chat_answer(&deltas, CHAT_USAGE),
    }
}

/// Anthropic's answer, its first usage with these fields.
pub(crate) fn anthropic_answer(usage: &str) -> Script {
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    let start = format!(
        r#"{{"type":"message_start","message":{{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{{{usage},"output_tokens":1}}}}}}"#
    );
    let texts = [" a", " b", " c", " d"].map(delta);
    let mut events = vec![
        start.as_str(),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"ping"}"#,
    ];
    events.extend(texts.iter().map(String::as_str));
    events.extend([
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":4}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    Script::events(&events)
}

pub(crate) fn anthropic() -> Kind {
    Kind {
        protocol: Box::new(Anthropic {
            model: "m".to_owned(),
        }),
        takes: Takes {
            line: "POST /v1/messages",
            fields: &[
                "model",
                "messages[].role",
                "messages[].content[].type",
                "messages[].content[].text",
                "messages[].content[].cache_control.type",
                "max_tokens",
                "temperature",
                "stream",
            ],
            headers: &[("anthropic-version", "2023-06-01")],
        },
        answer: anthropic_answer(
            r#""input_tokens":2,"cache_creation_input_tokens":398,"cache_read_input_tokens":400"#,
        ),
    }
}
