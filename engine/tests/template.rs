//! Chat templates against Jinja2's own renderings, and templates that mean harm.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use std::collections::BTreeMap;

use engine::Error;
use engine::template::{ChatInput, ChatTemplate, Clock, Json, encode_chat, with_bos};
use serde::Deserialize;

/// A conversation and what goes with it, as the cases and requests spell them.
#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    messages: Vec<Json>,
    tools: Option<Json>,
    #[serde(default)]
    add_generation_prompt: bool,
    #[serde(default)]
    extra: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
struct Cases {
    input: Input,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    template: String,
    text: Option<String>,
    raises: Option<String>,
}

fn render(source: &str, input: &Input) -> Result<String, Error> {
    ChatTemplate::new(source)?.render(&ChatInput {
        messages: &input.messages,
        tools: input.tools.as_ref(),
        add_generation_prompt: input.add_generation_prompt,
        bos_token: "<s>",
        eos_token: "</s>",
        clock: Clock::from_unix_seconds(1_753_000_000),
        extra: &input.extra,
    })
}

fn empty() -> Input {
    serde_json::from_str("{}").unwrap()
}

#[test]
fn renders_every_case_as_jinja2_does() {
    let Cases { input, cases } =
        serde_json::from_str(include_str!("data/template_cases.json")).unwrap();
    assert_eq!(cases.len(), 49);
    for case in cases {
        match render(&case.template, &input) {
            Ok(text) => assert_eq!(Some(text), case.text, "{}", case.name),
            Err(Error::TemplateRaised(message)) => {
                assert_eq!(Some(message), case.raises, "{}", case.name);
            }
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
}

#[test]
fn refuses_with_the_line_what_it_does_not_support() {
    for (source, expected) in [
        (
            "a\n{% include 'x' %}",
            "line 2: syntax error: unknown statement",
        ),
        ("a\n\n{{ 1 | nope }}", "line 3: unknown filter"),
        ("{{ 'a'.nope() }}", "line 1: unknown method"),
        ("a\n{% if %}", "line 2: syntax error"),
        ("{{ messages.x.y }}", "line 1: undefined value"),
        ("{{ nope() }}", "line 1: unknown function"),
        (
            "\n{{ strftime_now('%Q') }}",
            "line 2: invalid operation: strftime_now does not know `%Q`",
        ),
        ("{{ strftime_now('%') }}", "does not know `%`"),
        ("{{ nope | tojson }}", "tojson cannot write undefined"),
        ("{{ 1 | tojson(indent=100) }}", "indents by at most 64"),
        ("{{ 1 | tojson(colour=1) }}", "colour"),
        ("{{ messages.append(1) }}", "no method named append"),
    ] {
        let error = render(source, &empty()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(expected),
            "{source}: {error} should say {expected}"
        );
    }
}

/// What exhausts time, memory, output or stack, and what the refusal must say.
const HARM: [(&str, &str); 15] = [
    (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "too many steps",
    ),
    (
        "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "too many steps",
    ),
    (
        "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
        "exceeds",
    ),
    ("{{ 'a' * 99999999999 }}", "too many steps"),
    ("{{ range(99999999999) }}", "too many elements"),
    (
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "recursion limit",
    ),
    (
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "recursion limit",
    ),
    (
        "{% set n = namespace(x=1) %}{% for i in range(99999) %}{% for j in range(9) %}\
         {% set n.x = [n.x] %}{% endfor %}{% endfor %}",
        "too many steps",
    ),
    (
        "{% set n = namespace(x=1) %}{% for i in range(999) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
        "at most 128 deep",
    ),
    (
        "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
        "at most 16777216 bytes",
    ),
    ("{{ '{:>999999999}'.format(1) }}", "at most 4 digits"),
    (
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
        "128 containers deep",
    ),
    (
        "{% set n = namespace() %}{% set n.x = n %}{{ n | string }}",
        "128 containers deep",
    ),
    (
        "{% set n = namespace() %}{% set n.x = n %}{{ '{}'.format(n) }}",
        "128 containers deep",
    ),
    (
        "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "at most 16777216 bytes",
    ),
];

/// The limits count steps, bytes and depth, so they bound the time on any machine, however busy.
#[test]
fn endless_and_exploding_templates_are_refused_by_a_counted_limit() {
    for (source, expected) in HARM {
        let error = render(source, &empty()).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn deep_nesting_is_survived_or_refused() {
    let deep = |open: &str, middle: &str, close: &str| {
        let n = 20_000;
        format!("{{{{ {}{middle}{} }}}}", open.repeat(n), close.repeat(n))
    };
    for source in [
        deep("[", "1", "]"),
        deep("(", "1", ")"),
        deep("-", "1", ""),
        deep("not ", "1", ""),
        deep("", "1", "|abs"),
        deep("", "x", ".a"),
        deep("", "1", "+1"),
        "{% if 1 %}".repeat(9_000),
        "{% set n = namespace(x=1) %}{% for i in range(20000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}".to_owned(),
        "x".repeat(1 << 19),
    ] {
        let _ = render(&source, &empty());
    }
}

#[test]
fn dates_agree_with_a_calendar_counted_day_by_day() {
    let (mut year, mut day_of_year) = (1899, 1);
    // 1899-01-01 is 25 932 days before 1970-01-01.
    for day in -25_932..73_000_i64 {
        let clock = Clock::from_unix_seconds(day * 86_400 + 86_399);
        let found = clock.strftime("%Y-%j %H:%M:%S").unwrap();
        assert_eq!(found, format!("{year}-{day_of_year:03} 23:59:59"));
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        day_of_year += 1;
        if day_of_year > 365 + i32::from(leap) {
            (year, day_of_year) = (year + 1, 1);
        }
    }
}

#[test]
fn bos_is_there_once_whoever_wrote_it() {
    assert_eq!(with_bos(vec![5, 6], Some(1)), [1, 5, 6]);
    assert_eq!(with_bos(vec![1, 5, 6], Some(1)), [1, 5, 6]);
    assert_eq!(with_bos(vec![5, 1], Some(1)), [1, 5, 1]);
    assert_eq!(with_bos(vec![], Some(1)), [1]);
    assert_eq!(with_bos(vec![5, 6], None), [5, 6]);
    let encode = |text: &str| Ok(text.bytes().map(u32::from).collect());
    assert_eq!(encode_chat("ab", Some(97), encode).unwrap(), [97, 98]);
    assert_eq!(encode_chat("b", Some(97), encode).unwrap(), [97, 98]);
    let broken = encode_chat("b", Some(97), |_| Err(Error::Tokenizer("no".to_owned())));
    assert!(broken.is_err());
}
