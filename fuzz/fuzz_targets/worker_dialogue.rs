#![no_main]

#[path = "../../native/xgboost/src/dialogue.rs"]
#[allow(dead_code)]
mod dialogue;

// What a worker says is heard in the same way however its bytes arrive, or refused.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let heard = |step: usize| {
        let (mut dialogue, mut all) = (dialogue::Dialogue::new(), Vec::new());
        for piece in bytes.chunks(step) {
            dialogue.feed(piece);
            while let Some(one) = dialogue.next()? {
                all.push(one);
            }
        }
        Ok::<_, String>(all)
    };
    assert_eq!(heard(bytes.len().max(1)), heard(3));
});
