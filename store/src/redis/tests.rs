//! Servers that are gone, hang, drip, flood or babble: a fault each, in time. Not here: servers that work
//! (`tests/conformance.rs`).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::*;

const CALL_MAX: Duration = Duration::from_millis(300);
/// Far more than a call may take, far less than for ever.
const SOON: Duration = Duration::from_secs(20);

fn page() -> Name {
    Name::of_text(Kind::Page, "a")
}

/// The address of a server that does this with each connection.
fn at(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    url
}

fn open(url: &str) -> Redis {
    let call_max = CALL_MAX;
    Redis::open(url, "test:", RedisOptions { call_max }).unwrap()
}

/// A server that says this to whatever it is asked, and then no more.
fn saying(answer: impl Into<Vec<u8>>) -> String {
    let answer = answer.into();
    let kept = std::sync::Mutex::new(Vec::new());
    at(move |mut stream| {
        let _ = stream.read(&mut [0; 1 << 12]);
        let _ = stream.write_all(&answer);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        kept.lock().unwrap().push(stream);
    })
}

/// What each call is told, in the order of the trait's methods; each by a store that has not failed yet.
fn faults(url: &str) -> Vec<Fault> {
    let mut into = b"before".to_vec();
    let begun = Instant::now();
    let said = vec![
        open(url).get(&page(), &mut into).unwrap_err(),
        open(url).put(&page(), b"a").unwrap_err(),
        open(url).claim(&page(), b"a").unwrap_err(),
        open(url).remove(&page()).unwrap_err(),
        open(url).list(Kind::Page).unwrap_err(),
    ];
    assert!(begun.elapsed() < SOON);
    assert_eq!(into, b"before");
    said
}

#[test]
fn an_address_that_is_none_names_what_to_type_and_tells_no_password() {
    for url in [
        "",
        "secret",
        "http://u:secret@host",
        "redis://:secret@",
        "redis://u:secret@host:99999",
        "redis://u:secret@host/secret",
        "rediss://u:secret@host",
        "redis+unix:///secret",
    ] {
        let fault = Redis::open(url, "", RedisOptions::default()).unwrap_err();
        assert!(fault.what.contains("redis://host:port"), "{url}: {fault}");
        assert!(!fault.to_string().contains("secret"), "{url}: {fault}");
    }
    let store = Redis::open("redis://u:secret@[::1]:7/3", "p", RedisOptions::default());
    assert_eq!(format!("{:?}", store.unwrap()), "Redis(::1:7, \"p\")");
}

#[test]
fn a_server_that_never_answers_is_a_fault_in_time() {
    let silent = std::sync::Mutex::new(Vec::new());
    let store = at(move |stream| silent.lock().unwrap().push(stream));
    for fault in faults(&store) {
        assert_eq!(fault.what, "no answer in time");
    }
}

#[test]
fn a_server_that_drips_is_a_fault_in_time() {
    let store = at(|mut stream| {
        std::thread::spawn(move || {
            let _ = stream.write_all(b"$1000\r\n");
            while stream.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    });
    let fault = open(&store).get(&page(), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.what, "no answer in time");
}

#[test]
fn a_server_that_is_gone_is_asked_again_only_after_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    drop(listener);
    let store = Redis::open(&url, "", RedisOptions::default()).unwrap();
    let first = store.remove(&page()).unwrap_err();
    assert!(first.what.contains("refused"), "{first}");
    let second = store.remove(&page()).unwrap_err();
    assert!(second.what.contains("so soon"), "{second}");
}

#[test]
fn a_host_that_has_no_address_is_a_fault() {
    let store = Redis::open("redis://no-such-host.invalid", "", RedisOptions::default()).unwrap();
    store.remove(&page()).unwrap_err();
}

#[test]
fn a_server_that_hangs_up_is_a_fault() {
    let store = at(drop);
    for fault in faults(&store) {
        assert!(!fault.what.is_empty(), "{fault}");
    }
}

#[test]
fn whatever_a_server_babbles_is_a_fault() {
    let deep = "*1\r\n".repeat(100_000);
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "\0\0\0\0\r\n",
        "*9223372036854775807\r\n:1\r\n",
        "$9223372036854775807\r\nabc",
        "%4611686018427387904\r\n+a\r\n+b\r\n",
        "|9223372036854775807\r\n",
        ">-1\r\n>-1\r\n>-1\r\n>-1\r\n",
        "~2\r\n:1\r\n:1\r\n",
        "=-1\r\nabc\r\n",
        "-ERR no\r\n-ERR no\r\n-ERR no\r\n-ERR no\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-OOM no\r\n:0\r\n",
        "*2\r\n$1\r\nx\r\n*0\r\n",
        "*2\r\n:7\r\n*0\r\n+a\r\n+b\r\n",
        "+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
        &deep,
    ] {
        let store = saying(answer);
        for fault in faults(&store) {
            assert!(fault.what.len() < 300, "{answer:.40}: {fault}");
        }
    }
}

#[test]
fn a_server_that_floods_is_a_fault_before_memory_is() {
    let forever = |begin: &'static [u8], with: &'static [u8]| {
        at(move |mut stream| {
            std::thread::spawn(move || {
                let flood = with.repeat(1 << 14);
                let mut go = stream.write_all(begin);
                while go.is_ok() {
                    go = stream.write_all(&flood);
                }
            });
        })
    };
    for store in [
        forever(b"*2000000000\r\n", b":1\r\n"),
        forever(b"+", b"aaaa"),
        forever(b"$2000000000\r\n", b"aaaa"),
    ] {
        let mut into = Vec::new();
        open(&store).get(&page(), &mut into).unwrap_err();
        assert!(into.is_empty());
    }
}

#[test]
fn a_pattern_of_a_prefix_matches_only_itself() {
    assert_eq!(quoted(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d");
}
