//! A Redis server as a store. Not here: servers that do not answer as Redis does (`redis::tests`).

use std::time::Duration;

use store::{Kind, Redis, RedisOptions, Store};

use super::{conforms, listed, name, read, skip};

/// A store under a prefix of its own, with letters that patterns know.
fn open() -> Option<Redis> {
    let Ok(url) = std::env::var("FAK_TEST_REDIS") else {
        skip("a Redis server as a store: FAK_TEST_REDIS is not set");
        return None;
    };
    let prefix = format!("fak[test]*{}:", name(Kind::Page).digits());
    let call_max = Duration::from_secs(20);
    Some(Redis::open(&url, &prefix, RedisOptions { call_max }).unwrap())
}

/// What another program does to the same server.
fn command(words: &[&str]) -> String {
    let url = std::env::var("FAK_TEST_REDIS").unwrap();
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(word);
    }
    format!("{:?}", command.query::<redis::Value>(&mut connection))
}

#[test]
fn a_redis_server_is_a_store() {
    if let Some(store) = open() {
        conforms(&store);
    }
}

#[test]
fn a_name_without_a_value_is_not_listed_and_a_value_without_a_name_is_found_by_rebuilding() {
    let Some(store) = open() else { return };
    let prefix = format!("{store:?}");
    let prefix = prefix.split('"').nth(1).unwrap();
    let (kept, thrown_out) = (name(Kind::Page), name(Kind::Page));
    store.put(&kept, b"kept").unwrap();
    store.put(&thrown_out, b"thrown out").unwrap();
    command(&["DEL", &format!("{prefix}{thrown_out}")]);
    assert!(listed(&store, &kept) && !listed(&store, &thrown_out));

    command(&["DEL", &format!("{prefix}names/page")]);
    assert!(!listed(&store, &kept));
    command(&["SADD", &format!("{prefix}names/page"), &thrown_out.digits()]);
    command(&["SET", &format!("{prefix}page/README"), "no name"]);
    let within = Duration::from_secs(60);
    assert_eq!(store.rebuild(Kind::Page, within).unwrap(), 2);
    assert!(listed(&store, &kept) && !listed(&store, &thrown_out));
    assert_eq!(store.rebuild(Kind::Page, within).unwrap(), 0);
}

#[test]
fn many_names_are_all_listed() {
    let Some(store) = open() else { return };
    let names: Vec<_> = (0..3000).map(|_| name(Kind::Worker)).collect();
    for name in &names {
        store.put(name, b"a").unwrap();
    }
    let mut found: Vec<_> = store.list(Kind::Worker).unwrap();
    found.sort_by_key(|entry| entry.name);
    let mut names = names;
    names.sort_unstable();
    assert!(found.iter().map(|entry| entry.name).eq(names));
    assert!(found.iter().all(|entry| entry.bytes == Some(1)));
}

#[test]
fn a_key_of_another_type_is_a_fault_and_the_next_call_is_none() {
    let Some(store) = open() else { return };
    let prefix = format!("{store:?}");
    let prefix = prefix.split('"').nth(1).unwrap();
    let other = name(Kind::Page);
    command(&["SADD", &format!("{prefix}{other}"), "member"]);
    store.get(&other, &mut Vec::new()).unwrap_err();
    let page = name(Kind::Page);
    store.put(&page, b"page").unwrap();
    assert_eq!(read(&store, &page).unwrap(), b"page");
}

#[test]
fn a_connection_that_was_cut_is_replaced() {
    let Some(store) = open() else { return };
    let page = name(Kind::Page);
    store.put(&page, b"page").unwrap();
    command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_eq!(read(&store, &page).unwrap(), b"page");
}
