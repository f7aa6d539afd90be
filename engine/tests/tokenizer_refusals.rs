//! Tokenizer metadata of GGUF files from hostile hands: the right ids or a typed error that says why.
#![allow(clippy::unwrap_used)] // tests

use engine::weights::gguf::Gguf;
use engine::weights::gguf::write::{text_entry, u32_entry, write};
use engine::{Error, Tokenizer};

const TEXT: u32 = 8;

/// A metadata entry holding an array: its element type, how many, and their bytes.
fn array(key: &str, element: u32, count: usize, bytes: &[u8]) -> Vec<u8> {
    let mut entry = text_entry(key, "");
    entry.truncate(8 + key.len());
    for number in [9, element] {
        entry.extend_from_slice(&u32::to_le_bytes(number));
    }
    entry.extend_from_slice(&(count as u64).to_le_bytes());
    entry.extend_from_slice(bytes);
    entry
}

fn texts<T: AsRef<str>>(key: &str, texts: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.as_ref().len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_ref().as_bytes());
    }
    array(key, TEXT, texts.len(), &bytes)
}

fn integers(key: &str, values: &[i32]) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    array(key, 5, values.len(), &bytes)
}

fn floats(key: &str, values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    array(key, 6, values.len(), &bytes)
}

fn flag(key: &str, value: bool) -> Vec<u8> {
    let mut entry = text_entry(key, "");
    entry.truncate(8 + key.len());
    entry.extend_from_slice(&7_u32.to_le_bytes());
    entry.push(u8::from(value));
    entry
}

/// The tokenizer of a file with these entries, a later one replacing an earlier one of its key.
fn built(entries: &[Vec<u8>], changes: &[Vec<u8>]) -> Result<Tokenizer, Error> {
    let key = |entry: &[u8]| entry[..8 + entry[0] as usize].to_vec();
    let mut entries = entries.to_vec();
    for change in changes {
        entries.retain(|entry| key(entry) != key(change));
        entries.push(change.clone());
    }
    let (directory, mut bytes) = (tempfile::tempdir().unwrap(), Vec::new());
    let path = directory.path().join("model.gguf");
    write(&mut bytes, &entries, &[]).unwrap();
    std::fs::write(&path, bytes).unwrap();
    Tokenizer::from_gguf(&Gguf::open(&path)?)
}

fn byte_pairs() -> Vec<Vec<u8>> {
    vec![
        text_entry("tokenizer.ggml.model", "gpt2"),
        text_entry("tokenizer.ggml.pre", "gpt-2"),
        texts("tokenizer.ggml.tokens", &["a", "b", "ab", "<e>", "u"]),
        integers("tokenizer.ggml.token_type", &[1, 1, 1, 3, 4]),
        texts("tokenizer.ggml.merges", &["a b"]),
        u32_entry("tokenizer.ggml.eos_token_id", 3),
    ]
}

/// `<unk>`, `<s>`, the 256 bytes, then `a`, `b`, `ab`, the mark, and a user's `<u>`.
fn pieces() -> Vec<Vec<u8>> {
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned()];
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["a", "b", "ab", "\u{2581}", "<u>"].map(String::from));
    let mut kinds = vec![6; tokens.len()];
    kinds[..2].copy_from_slice(&[2, 3]);
    kinds[258..].copy_from_slice(&[1, 1, 1, 1, 4]);
    vec![
        text_entry("general.architecture", "llama"),
        text_entry("tokenizer.ggml.model", "llama"),
        texts("tokenizer.ggml.tokens", &tokens),
        integers("tokenizer.ggml.token_type", &kinds),
        floats("tokenizer.ggml.scores", &vec![0.0; tokens.len()]),
        u32_entry("tokenizer.ggml.bos_token_id", 1),
    ]
}

fn refuses(entries: &[Vec<u8>], changes: &[Vec<u8>], expected: &str) {
    let error = built(entries, changes).err().expect(expected).to_string();
    assert!(
        error.contains(expected),
        "{error} should mention {expected}"
    );
    assert!(error.len() < 400, "{} bytes of message", error.len());
}

#[test]
fn metadata_that_contradicts_itself_is_refused() {
    let huge = "x".repeat(1 << 20);
    let none: [&str; 0] = [];
    let tokens = |tokens: &[&str]| texts("tokenizer.ggml.tokens", tokens);
    let kinds = |kinds: &[i32]| integers("tokenizer.ggml.token_type", kinds);
    let merges = |merges: &[&str]| texts("tokenizer.ggml.merges", merges);
    assert!(built(&byte_pairs(), &[]).is_ok());
    for (change, expected) in [
        (tokens(&none), "0 tokens"),
        (
            tokens(&["a", "b", "ab", "<e>", "a"]),
            "`a` occurs twice, as 0 and as 4",
        ),
        (tokens(&["a", "b", "ab", "", "u"]), "token 3 is empty"),
        (
            tokens(&["a", "b", "ab"]),
            "token_type has 5 entries for 3 tokens",
        ),
        (
            integers("tokenizer.ggml.tokens", &[1]),
            "expected strings only",
        ),
        (u32_entry("tokenizer.ggml.tokens", 1), "expected an array"),
        (kinds(&[1, 1, 1]), "token_type has 3 entries for 5 tokens"),
        (kinds(&[1, 1, 1, 1, 7]), "expected integers 1 to 6"),
        (kinds(&[1, 1, 1, 1, -1]), "expected integers 1 to 6"),
        (kinds(&[1, 1, 1, 1, 6]), "byte token 4 `u`"),
        (merges(&["ab"]), "merge 0 `ab` is not two tokens"),
        (merges(&["a b", "a b b"]), "`b b` is not in"),
        (merges(&["b a"]), "`ba` is not in"),
        (merges(&[" a"]), "`` is not in"),
        (merges(&[huge.as_str()]), "merge 0 `xxxx"),
        (
            text_entry("tokenizer.ggml.pre", &huge),
            "pre-tokenizer `xxxx",
        ),
        (
            text_entry("tokenizer.ggml.pre", "default"),
            "supported: gpt-2, smollm",
        ),
        (text_entry("tokenizer.ggml.model", "bert"), "model `bert`"),
        (
            u32_entry("tokenizer.ggml.eos_token_id", 5),
            "id 5 is outside the vocabulary of 5",
        ),
        (
            flag("tokenizer.ggml.add_bos_token", true),
            "`tokenizer.ggml.bos_token_id` is missing",
        ),
        (
            flag("tokenizer.ggml.add_eos_token", true),
            "add_eos_token = true is not supported",
        ),
        (
            flag("tokenizer.ggml.add_space_prefix", true),
            "add_space_prefix = true",
        ),
    ] {
        refuses(&byte_pairs(), &[change], expected);
    }
    for key in ["model", "pre", "tokens", "merges"] {
        let mut entries = byte_pairs();
        let key = format!("tokenizer.ggml.{key}");
        entries.retain(|entry| !entry[8..].starts_with(key.as_bytes()));
        refuses(&entries, &[], &format!("`{key}` is missing"));
    }
}

#[test]
fn sentencepiece_metadata_that_contradicts_itself_is_refused() {
    let scores = |last: f32, count: usize| {
        let mut scores = vec![0.0; count];
        scores[count - 1] = last;
        floats("tokenizer.ggml.scores", &scores)
    };
    for (change, expected) in [
        (scores(0.0, 262), "262 scores for 263 tokens"),
        (scores(0.0, 264), "264 scores for 263 tokens"),
        (scores(f32::NAN, 263), "the score of token 262 is NaN"),
        (scores(f32::INFINITY, 263), "the score of token 262 is inf"),
        (
            integers("tokenizer.ggml.scores", &[0; 263]),
            "floating-point numbers only",
        ),
        (
            integers("tokenizer.ggml.token_type", &[1; 263]),
            "no byte token `<0x00>`",
        ),
        (
            text_entry("tokenizer.ggml.pre", "gpt-2"),
            "`gpt-2` is not one of SentencePiece",
        ),
        (text_entry("general.architecture", "phi3"), "`phi3`"),
        (
            flag("tokenizer.ggml.remove_extra_whitespaces", true),
            "remove_extra_whitespaces",
        ),
    ] {
        refuses(&pieces(), &[change], expected);
    }
}

#[test]
fn text_without_tokens_is_refused_and_not_dropped() {
    let tokenizer = built(&byte_pairs(), &[]).unwrap();
    assert_eq!(tokenizer.encode("abba", false).unwrap(), [2, 1, 0]);
    let error = tokenizer.encode("ab\u{e9}", false).unwrap_err().to_string();
    assert!(error.contains("spells 2 of the text's 4 bytes"), "{error}");
}

#[test]
fn merges_that_spell_a_control_token_do_not_smuggle_it_in() {
    let tokens = ["a", "b", "ab", "<e>", "u"].as_slice();
    let change = [
        texts("tokenizer.ggml.tokens", tokens),
        integers("tokenizer.ggml.token_type", &[1, 1, 3, 3, 4]),
    ];
    let tokenizer = built(&byte_pairs(), &change).unwrap();
    assert_eq!(tokenizer.encode("ab", true).unwrap(), [2]);
    let error = tokenizer.encode("ab", false).unwrap_err().to_string();
    assert!(error.contains("control token `ab`"), "{error}");
}

#[test]
fn sentencepiece_adds_its_space_where_the_file_says() {
    let with = built(&pieces(), &[]).unwrap();
    let without = built(&pieces(), &[flag("tokenizer.ggml.add_space_prefix", false)]).unwrap();
    let (a, b, ab, mark, user) = (258, 259, 260, 261, 262);
    assert!(with.encode("", false).unwrap().is_empty());
    assert_eq!(with.encode("ab b", false).unwrap(), [mark, ab, mark, b]);
    assert_eq!(without.encode("ab b", false).unwrap(), [ab, mark, b]);
    // As llama.cpp: after an added token text begins anew.
    assert_eq!(
        with.encode("a<u>a", false).unwrap(),
        [mark, a, user, mark, a]
    );
    assert_eq!(without.encode("a<u>a", false).unwrap(), [a, user, a]);
    assert_eq!(with.encode("<s>a", true).unwrap(), [1, mark, a]);
    assert_eq!(with.decode(&[mark, mark, a]).unwrap(), " a");
    assert_eq!(without.decode(&[mark, mark, a]).unwrap(), "  a");
    assert_eq!((with.bos(), with.eos_id()), (Some(1), None));
}
