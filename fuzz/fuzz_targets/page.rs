#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rejoin_pages::check::page(bytes));
