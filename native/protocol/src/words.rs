//! How reasons and errors say what they count and name.

use crate::ids::Rank;
use alloc::format;
use alloc::string::String;

/// Ranks as a text: `0, 2 and 5`.
pub fn list(ranks: &[Rank]) -> String {
    let mut text = String::new();
    for (index, rank) in ranks.iter().enumerate() {
        if index > 0 {
            text.push_str(if index + 1 == ranks.len() { " and " } else { ", " });
        }
        text.push_str(&format!("{rank}"));
    }
    text
}

/// Where something is, by the name of its process: `executor 3` where the framework gives a bare name, and what a
/// name of several words says by itself: `process 0.1`, `TaskManager host 4711`.
pub fn place(name: &str) -> String {
    if name.contains(' ') {
        name.into()
    } else {
        format!("executor {name}")
    }
}

/// How often: `once`, `3 times`.
pub fn times(count: u32) -> String {
    match count {
        1 => "once".into(),
        _ => format!("{count} times"),
    }
}
